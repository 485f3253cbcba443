/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a plugin, and every reason not to: the checks that need no configuration, in a fixed
 * order, each with a message of its own. Everything a description says is read only after the check
 * that makes reading it safe.
 */
#include "host/plugin_host.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "host/dl.h"
#include "host/search.h"

#if defined(__x86_64__)
#define HOST_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define HOST_MACHINE EM_AARCH64
#elif defined(__riscv)
#define HOST_MACHINE EM_RISCV
#elif defined(__powerpc64__)
#define HOST_MACHINE EM_PPC64
#else
#define HOST_MACHINE EM_NONE /* the dynamic linker will say */
#endif

struct subject {
    const char *path, *kind, *id;
    const struct pst_plugin *plugin;
};

static pst_status refuse_file(struct pst_error *err, const char *kind, const char *path,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));

static pst_status refuse_file(struct pst_error *err, const char *kind, const char *path,
                              const char *format, ...)
{
    char text[768];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pst_text_make_plain(text); /* it may quote the plugin */
    return pst_fail(err, PST_ERR_UNSUPPORTED, kind, "%s: %s", path, text);
}

static const char *machine_name(unsigned machine)
{
    static const struct {
        unsigned machine;
        const char *name;
    } names[] = {{EM_X86_64, "x86-64"}, {EM_386, "32-bit x86"}, {EM_AARCH64, "aarch64"},
                 {EM_ARM, "arm"},       {EM_RISCV, "riscv"},    {EM_PPC64, "ppc64"}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].machine == machine) {
            return names[i].name;
        }
    }
    return "another machine";
}

/* Up to size bytes from there; fewer at the end of the file, -1 with errno where reading fails. */
static ssize_t read_at(int fd, void *data, size_t size, off_t at)
{
    size_t done = 0;
    ssize_t n = 1;

    while (done < size && n != 0) {
        n = pread(fd, (char *)data + done, size - done, at + (off_t)done);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)done;
}

/*
 * How many bytes of the file the segments need; 0 if the table of segments itself is damaged, with
 * errno where it cannot be read. The dynamic linker maps a file that was cut short and dies of
 * SIGBUS.
 */
static uint64_t needed_bytes(int fd, const Elf64_Ehdr *header)
{
    uint64_t needed = 1, end;

    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum == 0) {
        return 0;
    }
    for (unsigned i = 0; i < header->e_phnum; i++) {
        off_t at = (off_t)(header->e_phoff + i * sizeof(Elf64_Phdr));
        Elf64_Phdr segment;

        if (at < 0 || read_at(fd, &segment, sizeof segment, at) != (ssize_t)sizeof segment ||
            __builtin_add_overflow(segment.p_offset, segment.p_filesz, &end)) {
            return 0;
        }
        needed = end > needed ? end : needed;
    }
    return needed;
}

static pst_status check_elf(struct subject *s, struct pst_error *err)
{
    Elf64_Ehdr header;
    int fd = open(s->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    uint64_t needed = 0;
    struct stat stat;
    int unreadable;
    ssize_t n;

    if (fd < 0) {
        return refuse_file(err, "plugin.load", s->path, "%s", strerror(errno));
    }
    errno = 0;
    n = read_at(fd, &header, sizeof header, 0);
    if (n == (ssize_t)sizeof header && fstat(fd, &stat) == 0) {
        needed = needed_bytes(fd, &header);
    }
    unreadable = n < 0 || needed == 0 ? errno : 0;
    close(fd);
    if (unreadable != 0) {
        return refuse_file(err, "plugin.load", s->path, "cannot be read: %s", strerror(unreadable));
    }
    if (n < (ssize_t)sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        return refuse_file(err, "plugin.load", s->path,
                           "not a shared object (no ELF file); rebuild the plugin or reinstall it");
    }
    if (header.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        (HOST_MACHINE != EM_NONE && header.e_machine != HOST_MACHINE)) {
        return refuse_file(err, "plugin.load", s->path,
                           "built for %s, this penstock runs on %s; get a build for this machine",
                           machine_name(header.e_machine), machine_name(HOST_MACHINE));
    }
    if (header.e_type != ET_DYN) {
        return refuse_file(err, "plugin.load", s->path,
                           "an ELF file, but not a shared object; link it with -shared");
    }
    if (needed == 0 || (uint64_t)stat.st_size < needed) {
        return refuse_file(err, "plugin.load", s->path,
                           "damaged or cut short; rebuild the plugin or reinstall it");
    }
    return PST_OK;
}

/* Sets back what a constructor changed, as far as the system lets it. */
static bool restore_limits(const struct rlimit *before)
{
    bool same = true;

    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit now;

        getrlimit((__rlimit_resource_t)i, &now);
        if (now.rlim_cur != before[i].rlim_cur || now.rlim_max != before[i].rlim_max) {
            same = false;
            setrlimit((__rlimit_resource_t)i, &before[i]);
        }
    }
    return same;
}

static pst_status load_file(struct subject *s, struct pst_error *err)
{
    struct rlimit limits[RLIM_NLIMITS];
    pst_plugin_entry_fn *entry;
    char reason[512];
    void *handle;
    bool opened;

    for (int i = 0; i < RLIM_NLIMITS; i++) {
        getrlimit((__rlimit_resource_t)i, &limits[i]);
    }
    opened = pst_dl_open(s->path, &handle, reason, sizeof reason);
    if (!restore_limits(limits)) { /* first: a file that may not be opened counts as not found */
        return refuse_file(err, "plugin.load", s->path,
                           "loading it changes resource limits; a constructor must not do that");
    }
    if (!opened) {
        return refuse_file(err, "plugin.load", s->path, "cannot be loaded: %s", reason);
    }
    entry = (pst_plugin_entry_fn *)(uintptr_t)pst_dl_symbol(handle, "pst_plugin_entry");
    if (entry == NULL) {
        return refuse_file(err, "plugin.descriptor", s->path,
                           "exports no pst_plugin_entry; write PST_PLUGIN(description) once in it");
    }
    s->plugin = entry();
    if (s->plugin == NULL) {
        return refuse_file(err, "plugin.descriptor", s->path, "pst_plugin_entry() returned NULL");
    }
    return PST_OK;
}

static pst_status check_abi(struct subject *s, struct pst_error *err)
{
    const struct pst_plugin *p = s->plugin;

    if (!PST_HAS(p, abi_minor)) {
        return refuse_file(err, "plugin.descriptor", s->path,
                           "its description has %u bytes, too few for an ABI version; set .size = "
                           "sizeof",
                           p->size);
    }
    if (p->abi_major == PST_ABI_MAJOR && !PST_HAS(p, get_interface)) {
        return refuse_file(err, "plugin.descriptor", s->path,
                           "its description has %u bytes, ABI %u.%u has %zu; set .size = sizeof",
                           p->size, p->abi_major, p->abi_minor, sizeof *p);
    }
    if (p->abi_major != PST_ABI_MAJOR) {
        return refuse_file(
            err, "plugin.abi", s->path,
            "built for ABI %u.%u, this penstock has ABI %u.%u: ask its author for a build",
            p->abi_major, p->abi_minor, PST_ABI_MAJOR, PST_ABI_MINOR);
    }
    if (p->abi_minor > PST_ABI_MINOR) {
        return refuse_file(err, "plugin.abi", s->path,
                           "needs penstock ABI %u.%u, this penstock has ABI %u.%u: update penstock",
                           p->abi_major, p->abi_minor, PST_ABI_MAJOR, PST_ABI_MINOR);
    }
    return PST_OK;
}

static bool is_missing(const char *text)
{
    return text == NULL || text[0] == '\0';
}

static pst_status check_names(struct subject *s, struct pst_error *err)
{
    const struct pst_plugin *p = s->plugin;

    if (is_missing(p->kind) || strcmp(p->kind, s->kind) != 0) {
        return refuse_file(err, "plugin.descriptor", s->path,
                           "states kind \"%s\", but its file is named as a %s; rename the file",
                           is_missing(p->kind) ? "" : p->kind, s->kind);
    }
    if (is_missing(p->id) || strcmp(p->id, s->id) != 0) {
        struct pst_arena arena = {0};
        pst_status status =
            refuse_file(err, "plugin.descriptor", s->path,
                        "states the name \"%s\", but its file is named for \"%s\"; rename the "
                        "file to %s",
                        is_missing(p->id) ? "" : p->id, s->id,
                        pst_search_join(&arena, p->kind, is_missing(p->id) ? "ID" : p->id));

        pst_arena_finish(&arena);
        return status;
    }
    return PST_OK;
}

/* These texts are shown and written into plans, so they must be plain. */
static pst_status refuse_text(const struct subject *s, const char *what, struct pst_error *err)
{
    return refuse_file(err, "plugin.descriptor", s->path,
                       "its description's %s has a control character or is not UTF-8", what);
}

static pst_status check_row_texts(const struct subject *s, struct pst_error *err)
{
    const struct pst_plugin *p = s->plugin;

    for (uint32_t i = 0; i < p->n_params; i++) {
        const struct pst_param *row = pst_plugin_param(p, i);
        const char *const texts[] = {row->initial, row->range, row->doc};

        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
            if (texts[k] != NULL && !pst_text_is_plain(texts[k])) {
                char what[96];

                snprintf(what, sizeof what, "parameter \"%s\"", row->key);
                return refuse_text(s, what, err);
            }
        }
    }
    return PST_OK;
}

/* Attributes of a model are in no config's folder. */
static pst_status check_row_types(const struct subject *s, struct pst_error *err)
{
    const struct pst_plugin *p = s->plugin;

    for (uint32_t i = 0; i < p->n_params && strcmp(p->kind, "operator") == 0; i++) {
        const struct pst_param *row = pst_plugin_param(p, i);

        if (row->type == PST_PARAM_PATH) {
            return refuse_file(err, "plugin.descriptor", s->path,
                               "parameter \"%s\" is a path, which an operator cannot have",
                               row->key);
        }
    }
    return check_row_texts(s, err);
}

static pst_status check_rows(struct subject *s, struct pst_error *err)
{
    const struct pst_plugin *p = s->plugin;
    struct pst_error why;

    if (p->n_params > 0 && (p->params == NULL || p->param_size < sizeof(struct pst_param))) {
        return refuse_file(err, "plugin.descriptor", s->path,
                           "has %u parameter rows of %u bytes, at least %zu are needed",
                           p->n_params, p->param_size, sizeof(struct pst_param));
    }
    memset(&why, 0, sizeof why);
    if (p->n_params > 0 &&
        pst_params_verify(p->params, p->n_params, p->param_size, p->config_size, &why) != PST_OK) {
        return refuse_file(err, "plugin.descriptor", s->path, "%s", why.message);
    }
    return check_row_types(s, err);
}

static pst_status check_words(const struct subject *s, const char *name, const char *const *words,
                              struct pst_error *err)
{
    if (words == NULL) {
        return refuse_file(err, "plugin.descriptor", s->path,
                           "its description lacks %s, a list that ends with NULL", name);
    }
    for (; *words != NULL; words++) {
        if (!pst_text_is_plain(*words)) {
            return refuse_text(s, name, err);
        }
    }
    return PST_OK;
}

static pst_status check_strings(struct subject *s, struct pst_error *err)
{
    const struct pst_plugin *p = s->plugin;
    const struct {
        const char *name, *text;
    } strings[] = {{".version", p->version},
                   {".summary", p->summary},
                   {".reference", p->reference},
                   {".license", p->license}};
    const char *url = pst_plugin_url(p), *vendor = pst_plugin_vendor(p);
    pst_status status;
    size_t i;

    for (i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        if (is_missing(strings[i].text)) {
            return refuse_file(err, "plugin.descriptor", s->path, "its description lacks %s",
                               strings[i].name);
        }
        if (!pst_text_is_plain(strings[i].text)) {
            return refuse_text(s, strings[i].name, err);
        }
    }
    if (url != NULL && !pst_text_is_plain(url)) {
        return refuse_text(s, ".url", err);
    }
    if (vendor != NULL && !pst_text_is_plain(vendor)) {
        return refuse_text(s, ".vendor", err);
    }
    status = check_words(s, ".provides", p->provides, err);
    PST_TRY(status, check_words(s, ".needs", p->needs, err));
    if (status != PST_OK) {
        return status;
    }
    if (p->create == NULL || p->destroy == NULL || p->get_interface == NULL) {
        return refuse_file(err, "plugin.descriptor", s->path, "its description lacks %s()",
                           p->create == NULL    ? "create"
                           : p->destroy == NULL ? "destroy"
                                                : "get_interface");
    }
    return PST_OK;
}

/* The first required function that is absent, or NULL. */
static const char *absent_function(const char *kind, const void *interface)
{
    if (strcmp(kind, "partitioner") == 0) {
        const struct pst_partitioner *f = interface;

        return PST_CAN(f, partition) ? NULL : "partition";
    }
    if (strcmp(kind, "scheduler") == 0) {
        const struct pst_scheduler *f = interface;

        return !PST_CAN(f, topology) ? "topology" : !PST_CAN(f, schedule) ? "schedule" : NULL;
    }
    if (strcmp(kind, "model") == 0) {
        const struct pst_model_interface *f = interface;

        return PST_CAN(f, build) ? NULL : "build";
    }
    if (strcmp(kind, "data") == 0) {
        const struct pst_data_interface *f = interface;

        return !PST_CAN(f, open)      ? "open"
               : !PST_CAN(f, samples) ? "samples"
               : !PST_CAN(f, read)    ? "read"
                                      : NULL;
    }
    if (strcmp(kind, "operator") == 0) {
        const struct pst_operator *f = interface;

        return !PST_CAN(f, describe)  ? "describe"
               : !PST_CAN(f, kernels) ? "kernels"
               : !PST_CAN(f, example) ? "example"
                                      : NULL;
    }
    const struct pst_memopt *f = interface;

    return !PST_CAN(f, price) ? "price" : !PST_CAN(f, plan) ? "plan" : NULL;
}

static pst_status check_interface(struct subject *s, struct pst_error *err)
{
    const void *interface;
    const char *absent;
    char id[32];

    snprintf(id, sizeof id, "pst.%s/1", s->kind);
    interface = s->plugin->get_interface(id);
    if (interface == NULL) {
        return refuse_file(err, "plugin.descriptor", s->path, "a %s without the interface %s",
                           s->kind, id);
    }
    absent = absent_function(s->kind, interface);
    if (absent != NULL) {
        return refuse_file(err, "plugin.descriptor", s->path, "its interface %s lacks %s()", id,
                           absent);
    }
    return PST_OK;
}

static pst_status check_all(struct subject *s, struct pst_error *err)
{
    static pst_status (*const checks[])(struct subject *, struct pst_error *) = {
        check_elf, load_file, check_abi, check_names, check_rows, check_strings, check_interface};
    pst_status status = PST_OK;

    for (size_t i = 0; status == PST_OK && i < sizeof checks / sizeof checks[0]; i++) {
        status = checks[i](s, err);
    }
    return status;
}

pst_status pst_plugin_open(const char *path, const char *kind, const char *id,
                           const struct pst_plugin **ret_plugin, struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct subject s = {.path = path, .kind = kind, .id = id};
    const char *name, *file_kind = NULL, *file_id = NULL;
    pst_status status = pst_search_secure(&arena, path, &s.path, err);

    if (status != PST_OK) {
        goto out;
    }
    name = strrchr(s.path, '/') + 1;
    if (!pst_search_split(&arena, name, &file_kind, &file_id)) {
        status =
            refuse_file(err, "plugin.descriptor", s.path,
                        "a plugin's file is named <kind>-<id>.so, such as scheduler-1f1b.so or "
                        "scheduler-lab.1f1b.so");
        goto out;
    }
    if ((kind != NULL && strcmp(kind, file_kind) != 0) ||
        (id != NULL && strcmp(id, file_id) != 0)) {
        status = refuse_file(err, "plugin.descriptor", s.path,
                             "%s \"%s\" is wanted, but this file is named as %s \"%s\"",
                             kind != NULL ? kind : file_kind, id != NULL ? id : file_id, file_kind,
                             file_id);
        goto out;
    }
    s.kind = file_kind;
    s.id = file_id;
    pst_breadcrumb_enter(pst_breadcrumb_plugin(s.kind, s.id, s.path), PST_CRUMB_LOAD);
    status = check_all(&s, err);
    pst_breadcrumb_leave();
    if (status == PST_OK) {
        *ret_plugin = s.plugin;
    }
out:
    pst_arena_finish(&arena);
    return status;
}
