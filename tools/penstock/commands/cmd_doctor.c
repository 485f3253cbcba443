/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock doctor`: facts for a bug report and for the question why something is not used: what
 * this machine, this build and this environment are.
 */
#include <gnu/libc-version.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/text.h"
#include "base/util.h"
#include "commands/commands.h"
#include "exec/device.h"
#include "exec/transport.h"
#include "host/apart.h"
#include "host/plugin_host.h"
#include "host/shipped.h"
#include "reports/rows.h"
#include "reports/table.h"

#define MODULES_MOST 32
#define FOLDERS_MOST 32

struct facts {
    uint32_t n;
    struct {
        const char *name, *text;
    } at[64];
};

/* A device or transport module next to the binary. */
struct module_found {
    const char *name, *kind, *id, *text;
    bool usable;
};

struct machine {
    struct pst_arena arena; /* owns every text */
    const char *version, *compiler, *system, *processor, *jansson;
    uint32_t cores, usable_cores; /* online; allowed by the affinity mask */
    uint64_t memory_bytes, available_bytes;
    uint64_t planner_bytes;   /* what a process for planning may take */
    const char *trusted_list; /* of plugins that run in this process */
    const char *isolate;      /* the default of plugins.isolate */
    uint32_t n_modules, n_folders;
    struct module_found *modules;
    const char **folders;
    struct facts variables, missing; /* missing: what a config cannot say here, and why */
};

/* Variables that change what penstock or its libraries do. */
static const char *const variables[] = {
    "PENSTOCK_PLUGIN_PATH",
    "PENSTOCK_LOG",
    "PENSTOCK_NO_PROFILE",
    "XDG_CACHE_HOME",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "OMP_WAIT_POLICY",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_VERBOSE",
    "DNNL_VERBOSE",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "DNNL_DEFAULT_FPMATH_MODE",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "MALLOC_ARENA_MAX",
    "NO_COLOR",
    "TERM",
    "CUDA_VISIBLE_DEVICES",
    "NCCL_DEBUG",
    "NCCL_SOCKET_IFNAME",
    "SLURM_CPUS_PER_TASK",
    "SLURM_JOB_ID",
    "OMPI_COMM_WORLD_SIZE",
};

static uint64_t memory_field(const char *key)
{
    char text[64];

    return pst_file_field("/proc/meminfo", key, text, sizeof text) ? strtoull(text, NULL, 10) * 1024
                                                                   : 0;
}

static void examine_system(struct machine *machine)
{
    char processor[256];
    struct utsname name;
    long online = sysconf(_SC_NPROCESSORS_ONLN);

#if defined(__clang__)
    machine->compiler = "clang " __clang_version__;
#else
    machine->compiler = "gcc " __VERSION__;
#endif
    machine->system = "unknown";
    if (uname(&name) == 0) {
        machine->system = pst_arena_printf(&machine->arena, "%s %s, %s, glibc %s", name.sysname,
                                           name.release, name.machine, gnu_get_libc_version());
    }
    pst_machine_processor(processor, sizeof processor);
    machine->processor = pst_arena_strdup(&machine->arena, processor);
    machine->cores = online > 0 ? (uint32_t)online : 1;
    machine->usable_cores = pst_usable_cores();
    machine->memory_bytes = memory_field("MemTotal");
    machine->available_bytes = memory_field("MemAvailable");
}

/* Copies the text. */
static void add_fact(struct machine *machine, struct facts *facts, const char *name,
                     const char *text)
{
    if (facts->n < sizeof facts->at / sizeof facts->at[0]) {
        facts->at[facts->n].name = name;
        facts->at[facts->n++].text = pst_arena_strdup(&machine->arena, text);
    }
}

static void describe_device(struct machine *machine, struct module_found *module,
                            const struct pst_device_ops *ops)
{
    char text[512] = "";

    module->usable = ops->probe(text, sizeof text) == PST_OK;
    if (module->usable) {
        ops->describe(text, sizeof text);
    }
    module->text = pst_arena_strdup(&machine->arena, text);
}

static void describe_transport(struct machine *machine, struct module_found *module,
                               const struct pst_transport_ops *ops)
{
    char text[512] = "";

    module->usable = ops->probe == NULL || ops->probe(text, sizeof text) == PST_OK;
    module->text = pst_arena_strdup(&machine->arena, module->usable ? "ready" : text);
}

/* Which types of numbers can a usable device not train in? */
static void examine_types(struct machine *machine, const char *id, const struct pst_device_ops *ops)
{
    const struct pst_device_config config = {.threads = 1, .kernels = "auto"};
    struct pst_device *device = NULL;
    struct pst_error err = {0};
    pst_status status = ops->open(&config, &device, &err);

    if (status == PST_OK) {
        status = ops->supports(device, PST_BF16, &err);
        ops->close(device);
    }
    if (status != PST_OK) {
        add_fact(machine, &machine->missing,
                 pst_arena_printf(&machine->arena, "run.dtype = \"bf16\" on %s", id), err.message);
    }
}

static void examine_module(struct machine *machine, const char *file, const char *kind,
                           const char *id)
{
    struct module_found *module = &machine->modules[machine->n_modules++];
    bool is_device = strcmp(kind, "device") == 0;
    struct pst_shipped shipped;
    struct pst_error err = {0};
    void *function = NULL;

    module->name = pst_arena_printf(&machine->arena, "%s-%s", kind, id);
    module->kind = kind;
    module->id = id;
    pst_shipped_find(file, &shipped);
    if (!shipped.is) {
        module->text = pst_arena_printf(&machine->arena, "not opened: it %s", shipped.why_not);
    } else if (pst_module_load(kind, id,
                               is_device ? PST_DEVICE_MODULE_SYMBOL : PST_TRANSPORT_MODULE_SYMBOL,
                               &function, &err) != PST_OK) {
        module->text = pst_arena_strdup(&machine->arena, err.message);
    } else if (is_device) {
        pst_device_module_fn *entry;

        *(void **)&entry = function;
        describe_device(machine, module, entry());
        if (module->usable) {
            examine_types(machine, id, entry());
        }
    } else {
        pst_transport_module_fn *entry;

        *(void **)&entry = function;
        describe_transport(machine, module, entry());
    }
}

/* Modules lie where the plugins of the build or install lie: the last folder of the search. */
static const char *folder_of_modules(const struct machine *machine)
{
    return machine->n_folders == 0 ? "." : machine->folders[machine->n_folders - 1];
}

static void examine_modules(struct machine *machine, const char *kind)
{
    char *pattern =
        pst_arena_printf(&machine->arena, "%s/%s-*.so", folder_of_modules(machine), kind);
    glob_t found;

    if (pst_glob(pattern, 0, &found) != 0) {
        return;
    }
    for (size_t i = 0; i < found.gl_pathc && machine->n_modules < MODULES_MOST; i++) {
        const char *id = strrchr(found.gl_pathv[i], '/') + 1 + strlen(kind) + 1;

        examine_module(machine, found.gl_pathv[i], kind,
                       pst_arena_strndup(&machine->arena, id, strlen(id) - 3));
    }
    globfree(&found);
}

static void examine_folders(struct pst_cli *cli, struct machine *machine)
{
    struct pst_plugin_list *list = NULL;

    pst_cli_must(cli, pst_plugin_list_create(NULL, &list, &cli->err));
    for (uint32_t i = 0; i < list->n_folders && machine->n_folders < FOLDERS_MOST; i++) {
        machine->folders[machine->n_folders++] =
            pst_arena_strdup(&machine->arena, list->folders[i]);
    }
    pst_plugin_list_destroy(list);
    machine->trusted_list = /* the program's own folder is last */
        pst_arena_printf(&machine->arena, "%s/" PST_SHIPPED_LIST,
                         machine->folders[machine->n_folders - 1]);
    machine->planner_bytes = pst_worker_default_memory();
}

static void examine_environment(struct machine *machine)
{
    for (uint32_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);

        if (value != NULL) {
            add_fact(machine, &machine->variables, variables[i], value);
        }
    }
}

static const char *module_key(struct machine *machine, const char *kind, const char *id)
{
    return pst_arena_printf(&machine->arena, "run.%s = \"%s\"", kind, id);
}

/* Modules that one may have heard of and that are not here, or cannot be used. */
static void examine_missing(struct machine *machine)
{
    for (const struct pst_module_known *known = pst_modules_told(); known->kind != NULL; known++) {
        bool found = known->serves == NULL;

        for (uint32_t i = 0; i < machine->n_modules; i++) {
            found = found || (strcmp(machine->modules[i].kind, known->kind) == 0 &&
                              strcmp(machine->modules[i].id, known->id) == 0);
        }
        if (!found) {
            char why[128];

            snprintf(why, sizeof why, "for %s; not part of this build", known->serves);
            add_fact(machine, &machine->missing, module_key(machine, known->kind, known->id), why);
        }
    }
    for (uint32_t i = 0; i < machine->n_modules; i++) {
        const struct module_found *m = &machine->modules[i];

        if (!m->usable) {
            add_fact(machine, &machine->missing, module_key(machine, m->kind, m->id), m->text);
        }
    }
}

static void put_facts(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of)
{
    const struct facts *facts = pst_row_value(row, of);

    pst_json_object(json, row->key);
    for (uint32_t i = 0; i < facts->n; i++) {
        pst_json_string(json, facts->at[i].name, facts->at[i].text);
    }
    pst_json_end(json, '}');
}

#define OF_MODULE(kind, member) PST_ROW_AT(kind, PST_ROW_ENTRY, struct module_found, member)
static const struct pst_row module_rows[] = {
    {NULL, NULL, OF_MODULE(TEXT, name), .title = "module"},
    {"kind", "`device` or `transport`", OF_MODULE(TEXT, kind)},
    {"id", NULL, OF_MODULE(TEXT, id)},
    {"usable", NULL, OF_MODULE(FLAG, usable), .title = "usable"},
    {"text", "what it is, or why it is not usable", OF_MODULE(TEXT, text),
     .title = "~what it is, or why not"},
    PST_ROWS_END,
};

#define OF(kind, member) PST_ROW_AT(kind, 0, struct machine, member)
static const struct pst_row library_rows[] = {
    {"jansson", "version", OF(TEXT, jansson)},
    PST_ROWS_END,
};
static const struct pst_row planning_rows[] = {
    {"isolate", "the default of `plugins.isolate`", OF(TEXT, isolate)},
    {"trusted_list", "manifest of plugins that run in the process of penstock",
     OF(TEXT, trusted_list)},
    {"memory_limit_bytes", "of the process for other plugins", OF(BYTES, planner_bytes)},
    PST_ROWS_END,
};
const struct pst_row pst_doctor_rows[] = {
    {"version", NULL, OF(TEXT, version)},
    {"compiler", NULL, OF(TEXT, compiler)},
    {"system", NULL, OF(TEXT, system)},
    {"processor", NULL, OF(TEXT, processor)},
    {"cores", "online", OF(COUNT, cores)},
    {"usable_cores", "allowed for this process", OF(COUNT, usable_cores)},
    {"memory_bytes", NULL, OF(BYTES, memory_bytes)},
    {"available_bytes", NULL, OF(BYTES, available_bytes)},
    {"modules", NULL, PST_ROW_OBJECT, .rows = module_rows,
     PST_ROW_EACH(0, struct machine, modules, n_modules)},
    {"missing", "from a setting that does not work here to the reason", PST_ROW_OBJECT,
     .at = offsetof(struct machine, missing), .json = put_facts},
    {"libraries", NULL, PST_ROW_OBJECT, .rows = library_rows},
    {"plugin_folders", "in the order of search", PST_ROW_TEXT,
     PST_ROW_EACH(0, struct machine, folders, n_folders)},
    {"planning", NULL, PST_ROW_OBJECT, .rows = planning_rows},
    {"environment", "variables that have an effect", PST_ROW_OBJECT,
     .at = offsetof(struct machine, variables), .json = put_facts},
    PST_ROWS_END,
};

static void print_missing(const struct machine *machine, bool color)
{
    struct pst_table table;

    fputc('\n', stdout);
    pst_table_init(&table, "unavailable here|~why");
    for (uint32_t i = 0; i < machine->missing.n; i++) {
        pst_table_cell(&table, "%s", machine->missing.at[i].name);
        pst_table_cell(&table, "%s", machine->missing.at[i].text);
    }
    pst_table_end(&table, stdout, "", color);
}

static void print_planning(const struct machine *machine)
{
    char bytes[32];
    char *text = pst_printf("  in this process for plugins on the list %s, else in a separate "
                            "process of at most %s (plugins.isolate = \"%s\")",
                            machine->trusted_list, pst_format_bytes(bytes, machine->planner_bytes),
                            machine->isolate);

    puts("planning");
    pst_table_paragraph(stdout, text, 2);
    free(text);
}

static void print_machine(const struct machine *machine, bool color)
{
    char total[32], free_text[32];

    printf("penstock   %s, built by %s\n", machine->version, machine->compiler);
    pst_text_printf(stdout, "system     %s\n", machine->system);
    pst_text_printf(stdout, "processor  %s; %u cores usable of %u\n", machine->processor,
                    machine->usable_cores, machine->cores);
    printf("memory     %s, %s available\n\n", pst_format_bytes(total, machine->memory_bytes),
           pst_format_bytes(free_text, machine->available_bytes));
    pst_rows_print(pst_doctor_rows, "modules", PST_ROW_OF(machine), "", color, stdout);
    if (machine->n_modules == 0) {
        pst_text_printf(stdout, "%s has no device and no transport; install penstock again\n",
                        folder_of_modules(machine));
    }
    if (machine->missing.n > 0) {
        print_missing(machine, color);
    }
    fputs("\nlibraries\n", stdout);
    printf("  %-10s %s\n", "jansson", machine->jansson);
    fputs("plugin folders, in the order of search\n", stdout);
    for (uint32_t i = 0; i < machine->n_folders; i++) {
        pst_text_printf(stdout, "  %s\n", machine->folders[i]);
    }
    print_planning(machine);
    fputs("environment\n", stdout);
    for (uint32_t i = 0; i < machine->variables.n; i++) {
        pst_text_printf(stdout, "  %s=%s\n", machine->variables.at[i].name,
                        machine->variables.at[i].text);
    }
    if (machine->variables.n == 0) {
        fputs("  no variable that matters is set\n", stdout);
    }
}

static void doctor(struct pst_cli *cli, void *request)
{
    struct machine machine = {
        .version = PENSTOCK_VERSION, .jansson = jansson_version_str(), .isolate = "auto"};

    (void)request;
    machine.modules = pst_arena_array(&machine.arena, MODULES_MOST, sizeof *machine.modules);
    machine.folders = pst_arena_array(&machine.arena, FOLDERS_MOST, sizeof *machine.folders);
    examine_system(&machine);
    examine_environment(&machine);
    examine_folders(cli, &machine);
    examine_modules(&machine, "device");
    examine_modules(&machine, "transport");
    examine_missing(&machine);
    if (cli->json) {
        pst_rows_json(&cli->answer, pst_doctor_rows, PST_ROW_OF(&machine));
    } else {
        print_machine(&machine, cli->color);
    }
    pst_arena_finish(&machine.arena);
}

const struct pst_command pst_cmd_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "Shows what this machine has",
    .run = doctor,
};
