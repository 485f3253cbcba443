/* SPDX-License-Identifier: Apache-2.0
 *
 * Every reason to refuse a plugin, with its words; search order, shadowing, insecure places; what
 * becomes of a status that a plugin returns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/child.h"
#include "host/plugin_host.h"
#include "train/isolate.h"

#define SCRATCH GALLERY "/scratch"

static void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, text);
    }
}

static void write_file(const char *path, const void *data, size_t n)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void copy_file(const char *from, const char *to)
{
    static char buffer[1 << 22];
    FILE *file = fopen(from, "rb");
    size_t n;

    assert_non_null(file);
    n = fread(buffer, 1, sizeof buffer, file);
    assert_true(n > 0 && n < sizeof buffer);
    fclose(file);
    write_file(to, buffer, n);
}

static void remove_all(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    char path[1024];

    if (dir == NULL) {
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            if (unlink(path) != 0) {
                remove_all(path);
            }
        }
    }
    closedir(dir);
    rmdir(folder);
}

static int fresh(void **state)
{
    (void)state;
    remove_all(SCRATCH);
    unsetenv("PENSTOCK_PLUGIN_PATH");
    return mkdir(SCRATCH, 0755);
}

static int clean(void **state)
{
    (void)state;
    unsetenv("PENSTOCK_PLUGIN_PATH");
    remove_all(SCRATCH);
    return 0;
}

struct refusal {
    const char *file, *kind, *words;
};

static void test_each_fault_has_its_own_refusal(void **state)
{
    static const struct refusal refusals[] = {
        {"scheduler-no-entry.so", "plugin.descriptor", "exports no pst_plugin_entry"},
        {"scheduler-null-entry.so", "plugin.descriptor", "returned NULL"},
        {"scheduler-tiny.so", "plugin.descriptor", "4 bytes, too few for an ABI version"},
        {"scheduler-short.so", "plugin.descriptor", "bytes, ABI 1.4 has"},
        {"scheduler-major.so", "plugin.abi",
         "built for ABI 2.4, this penstock speaks 1.4: ask its author for a build"},
        {"scheduler-minor.so", "plugin.abi", "needs penstock ABI 1.9"},
        {"scheduler-kind.so", "plugin.descriptor", "says that it is a \"memopt\""},
        {"scheduler-other-name.so", "plugin.descriptor", "rename the file to scheduler-name.so"},
        {"scheduler-row.so", "plugin.descriptor", "default outside its range"},
        {"scheduler-no-summary.so", "plugin.descriptor", "lacks .summary"},
        {"scheduler-no-needs.so", "plugin.descriptor", "lacks .needs"},
        {"scheduler-no-create.so", "plugin.descriptor", "lacks create()"},
        {"scheduler-no-interface.so", "plugin.descriptor", "without the interface pst.scheduler/1"},
        {"scheduler-old-interface.so", "plugin.descriptor", "pst.scheduler/1 lacks topology()"},
        {"scheduler-no-schedule.so", "plugin.descriptor", "pst.scheduler/1 lacks schedule()"},
        {"scheduler-undefined.so", "plugin.load", "not_there"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct pst_plugin *plugin = NULL;
        struct pst_error err = {0};
        char path[512];

        snprintf(path, sizeof path, "%s/%s", GALLERY, refusals[i].file);
        assert_int_not_equal(pst_plugin_open(path, NULL, NULL, &plugin, &err), PST_OK);
        assert_null(plugin);
        assert_string_equal(err.kind, refusals[i].kind);
        assert_contains(err.message, path);
        assert_contains(err.message, refusals[i].words);
        assert_int_equal(pst_error_exit_code(&err), 3);
    }
}

static void test_a_sound_plugin_opens(void **state)
{
    const struct pst_plugin *plugin = NULL, *again = NULL;
    struct pst_error err = {0};

    (void)state;
    assert_int_equal(
        pst_plugin_open(GALLERY "/scheduler-sound.so", "scheduler", "sound", &plugin, &err),
        PST_OK);
    assert_string_equal(plugin->id, "sound");
    assert_int_equal(pst_plugin_open(GALLERY "/scheduler-sound.so", NULL, NULL, &again, &err),
                     PST_OK);
    assert_ptr_equal(plugin, again);
    assert_int_not_equal(
        pst_plugin_open(GALLERY "/scheduler-sound.so", "scheduler", "gpipe", &plugin, &err),
        PST_OK);
    assert_contains(err.message, "scheduler \"gpipe\" is wanted");
}

static void test_files_that_are_no_plugins(void **state)
{
    const struct pst_plugin *plugin = NULL;
    struct pst_error err = {0};
    unsigned char elf[64] = {0x7F, 'E', 'L', 'F', 2, 1, 1};

    (void)state;
    assert_int_not_equal(pst_plugin_open(SCRATCH "/scheduler-gone.so", NULL, NULL, &plugin, &err),
                         PST_OK);
    assert_string_equal(err.kind, "plugin.not-found");
    assert_int_equal(pst_error_exit_code(&err), 2);

    write_file(SCRATCH "/scheduler-text.so", "hello", 5);
    assert_int_not_equal(pst_plugin_open(SCRATCH "/scheduler-text.so", NULL, NULL, &plugin, &err),
                         PST_OK);
    assert_string_equal(err.kind, "plugin.load");
    assert_contains(err.message, "not a shared object");

    elf[16] = 3; /* ET_DYN */
    elf[18] = 2; /* EM_SPARC: nobody's machine here */
    write_file(SCRATCH "/scheduler-sparc.so", elf, sizeof elf);
    assert_int_not_equal(pst_plugin_open(SCRATCH "/scheduler-sparc.so", NULL, NULL, &plugin, &err),
                         PST_OK);
    assert_contains(err.message, "another machine");
    assert_int_equal(pst_error_exit_code(&err), 3);

    assert_int_equal(mkdir(SCRATCH "/scheduler-folder.so", 0755), 0);
    assert_int_not_equal(pst_plugin_open(SCRATCH "/scheduler-folder.so", NULL, NULL, &plugin, &err),
                         PST_OK);
    assert_contains(err.message, "not a regular file");

    copy_file(GALLERY "/scheduler-sound.so", SCRATCH "/sound.so");
    assert_int_not_equal(pst_plugin_open(SCRATCH "/sound.so", NULL, NULL, &plugin, &err), PST_OK);
    assert_contains(err.message, "named <kind>-<id>.so");
    assert_null(plugin);
}

/* /tmp itself is no place for a plugin; a folder of one's own inside it is. */
static void test_sticky_folders(void **state)
{
    const struct pst_plugin *plugin = NULL;
    struct pst_error err = {0};

    (void)state;
    assert_int_equal(mkdir(SCRATCH "/own", 0755), 0);
    copy_file(GALLERY "/scheduler-sound.so", SCRATCH "/own/scheduler-sound.so");
    assert_int_equal(chmod(SCRATCH, 01777), 0);
    assert_int_equal(pst_plugin_open(SCRATCH "/own/scheduler-sound.so", NULL, NULL, &plugin, &err),
                     PST_OK);
    assert_int_equal(chmod(SCRATCH, 0777), 0);
    assert_int_not_equal(
        pst_plugin_open(SCRATCH "/own/scheduler-sound.so", NULL, NULL, &plugin, &err), PST_OK);
    assert_string_equal(err.kind, "plugin.insecure");
    assert_contains(err.message, SCRATCH ": this folder can be written by everybody");
    assert_int_equal(chmod(SCRATCH, 0755), 0);
}

static void test_insecure_places(void **state)
{
    const struct pst_plugin *plugin = NULL;
    struct pst_error err = {0};

    (void)state;
    copy_file(GALLERY "/scheduler-sound.so", SCRATCH "/scheduler-sound.so");
    assert_int_equal(chmod(SCRATCH "/scheduler-sound.so", 0646), 0);
    assert_int_not_equal(pst_plugin_open(SCRATCH "/scheduler-sound.so", NULL, NULL, &plugin, &err),
                         PST_OK);
    assert_string_equal(err.kind, "plugin.insecure");
    assert_contains(err.message, "chmod o-w");
    assert_int_equal(pst_error_exit_code(&err), 2);

    assert_int_equal(chmod(SCRATCH "/scheduler-sound.so", 0644), 0);
    assert_int_equal(chmod(SCRATCH, 01777), 0);
    assert_int_not_equal(pst_plugin_open(SCRATCH "/scheduler-sound.so", NULL, NULL, &plugin, &err),
                         PST_OK);
    assert_string_equal(err.kind, "plugin.insecure");
    assert_contains(err.message, "this folder can be written by everybody");

    assert_int_equal(chmod(SCRATCH, 0755), 0);
    assert_int_equal(pst_plugin_open(SCRATCH "/scheduler-sound.so", NULL, NULL, &plugin, &err),
                     PST_OK);

    assert_int_equal(symlink(GALLERY "/scheduler-sound.so", SCRATCH "/scheduler-link.so"), 0);
    assert_int_not_equal(pst_plugin_open(SCRATCH "/scheduler-link.so", NULL, NULL, &plugin, &err),
                         PST_OK);
    assert_contains(err.message, "links are not followed");
}

static struct pst_plugin_file *find(struct pst_plugin_list *list, const char *path)
{
    uint32_t i;

    for (i = 0; i < list->n_files; i++) {
        if (strcmp(list->files[i].path, path) == 0) {
            pst_plugin_file_describe(list, &list->files[i]);
            return &list->files[i];
        }
    }
    fail_msg("%s is not listed", path);
    return NULL;
}

static void test_search_order_and_shadowing(void **state)
{
    struct pst_plugin_list *list;
    const struct pst_plugin *plugin;
    struct pst_error err = {0};
    struct pst_plugin_file *mine, *theirs, *broken;

    (void)state;
    /* A scheduler of the tree, shadowed by a file that is first in the path. */
    copy_file(PENSTOCK_PLUGIN_DIR "/scheduler-gpipe.so", SCRATCH "/scheduler-gpipe.so");
    write_file(SCRATCH "/scheduler-rotten.so", "x", 1);
    write_file(SCRATCH "/notes.txt", "x", 1);
    setenv("PENSTOCK_PLUGIN_PATH", "relative:" SCRATCH ":/nonexistent", 1);
    assert_int_equal(pst_plugin_list_create(&list, &err), PST_OK);
    assert_int_equal(list->n_folders, 3);
    assert_string_equal(list->folders[0], SCRATCH);
    assert_string_equal(list->folders[2], PENSTOCK_PLUGIN_DIR);
    mine = find(list, SCRATCH "/scheduler-gpipe.so");
    theirs = find(list, PENSTOCK_PLUGIN_DIR "/scheduler-gpipe.so");
    broken = find(list, SCRATCH "/scheduler-rotten.so");
    assert_null(mine->shadowed_by);
    assert_string_equal(mine->plugin->id, "gpipe");
    assert_string_equal(mine->plugin->summary, theirs->plugin->summary);
    assert_null(mine->plugin->create); /* another process has looked at it */
    assert_string_equal(mine->why_not_shipped, "is not from the program's own folder");
    assert_string_equal(theirs->shadowed_by, mine->path);
    assert_true(theirs->shipped);
    assert_null(broken->plugin);
    assert_contains(broken->refusal.message, "not a shared object");
    assert_int_equal(pst_plugin_find("scheduler", "gpipe", NULL, &plugin, &err), PST_OK);
    assert_ptr_not_equal(plugin, theirs->plugin);

    /* What wins but cannot be used is an error, not a reason to take the next one. */
    write_file(SCRATCH "/scheduler-1f1b.so", "x", 1);
    assert_int_not_equal(pst_plugin_find("scheduler", "1f1b", NULL, &plugin, &err), PST_OK);
    assert_string_equal(err.kind, "plugin.load");
    assert_int_equal(pst_plugin_find("scheduler", "1f1b", PENSTOCK_PLUGIN_DIR "/scheduler-1f1b.so",
                                     &plugin, &err),
                     PST_OK);
    pst_plugin_list_destroy(list);
}

static void test_never_the_current_folder(void **state)
{
    const struct pst_plugin *plugin;
    struct pst_error err = {0};
    char before[1024];

    (void)state;
    copy_file(GALLERY "/scheduler-sound.so", SCRATCH "/scheduler-sound.so");
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(SCRATCH), 0);
    setenv("PENSTOCK_PLUGIN_PATH", ".::", 1);
    assert_int_not_equal(pst_plugin_find("scheduler", "sound", NULL, &plugin, &err), PST_OK);
    assert_string_equal(err.kind, "plugin.not-found");
    assert_int_equal(chdir(before), 0);
}

static void test_unknown_names(void **state)
{
    const struct pst_plugin *plugin;
    struct pst_error err = {0};

    (void)state;
    assert_int_not_equal(pst_plugin_find("scheduler", "gpip", NULL, &plugin, &err), PST_OK);
    assert_string_equal(err.kind, "plugin.not-found");
    assert_string_equal(
        err.message,
        "no scheduler \"gpip\"; did you mean \"gpipe\"? \"penstock plugins\" lists them");
    assert_int_equal(pst_error_exit_code(&err), 2);
    assert_int_not_equal(pst_plugin_find("scheduler", "../../etc/passwd", NULL, &plugin, &err),
                         PST_OK);
    assert_string_equal(err.kind, "plugin.not-found");
    assert_contains(err.details, PENSTOCK_PLUGIN_DIR);
}

static void test_all_plugins_of_the_tree_load(void **state)
{
    static const char *const wanted[] = {"memopt-full",          "memopt-none",
                                         "partitioner-chain-dp", "partitioner-uniform",
                                         "scheduler-1f1b",       "scheduler-gpipe"};
    struct pst_plugin_list *list;
    struct pst_error err = {0};
    size_t i;

    (void)state;
    assert_int_equal(pst_plugin_list_create(&list, &err), PST_OK);
    for (i = 0; i < list->n_files; i++) {
        pst_plugin_file_describe(list, &list->files[i]);
        if (list->files[i].plugin == NULL) {
            fail_msg("%s", list->files[i].refusal.message);
        }
    }
    for (i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        char path[512];

        snprintf(path, sizeof path, "%s/%s.so", PENSTOCK_PLUGIN_DIR, wanted[i]);
        find(list, path);
    }
    pst_plugin_list_destroy(list);
}

struct outcome {
    const char *id;
    pst_status status;
    const char *kind;
    int exit_code;
    const char *words;
};

static void test_statuses_become_errors(void **state)
{
    static const struct outcome outcomes[] = {
        {"bug", PST_ERR_BUG, "plugin.contract", 3, "create(): a list came back empty"},
        {"odd-status", PST_ERR_BUG, "plugin.contract", 3,
         "create() returned the unknown status 42"},
        {"infeasible", PST_ERR_INFEASIBLE, "plan.infeasible", 1, "needs at least 8 micro-batches"},
    };
    const struct pst_host_context context = {0};
    size_t i;

    (void)state;
    setenv("PENSTOCK_PLUGIN_PATH", GALLERY, 1);
    for (i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        struct pst_instance *instance = NULL;
        const struct pst_plugin *plugin;
        struct pst_error err = {0};
        char name[64];

        assert_int_equal(pst_plugin_find("scheduler", outcomes[i].id, NULL, &plugin, &err), PST_OK);
        assert_int_equal(pst_instance_create(plugin, NULL, &context, &instance, &err),
                         outcomes[i].status);
        assert_null(instance);
        assert_string_equal(err.kind, outcomes[i].kind);
        assert_int_equal(pst_error_exit_code(&err), outcomes[i].exit_code);
        snprintf(name, sizeof name, "scheduler \"%s\"", outcomes[i].id);
        assert_contains(err.message, name);
        assert_contains(err.message, outcomes[i].words);
    }
}

static void test_modules(void **state)
{
    struct pst_error err = {0};
    void *function = NULL;

    (void)state;
    assert_int_not_equal(pst_module_load("device", "abacus", "pst_device_entry", &function, &err),
                         PST_OK);
    assert_string_equal(err.kind, "config.value");
    assert_int_equal(pst_error_exit_code(&err), 2);
    assert_contains(err.hint, "this build has cpu");
    assert_int_not_equal(pst_module_load("device", "../x", "pst_device_entry", &function, &err),
                         PST_OK);
    assert_int_equal(pst_error_exit_code(&err), 2);
    /* A plugin is as good a shared object as any. */
    assert_int_equal(pst_module_load("scheduler", "gpipe", "pst_plugin_entry", &function, &err),
                     PST_OK);
    assert_non_null(function);
    assert_int_not_equal(pst_module_load("scheduler", "gpipe", "nothing", &function, &err), PST_OK);
    assert_contains(err.message, "exports no nothing");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_fault_has_its_own_refusal, fresh, clean),
        cmocka_unit_test_setup_teardown(test_a_sound_plugin_opens, fresh, clean),
        cmocka_unit_test_setup_teardown(test_files_that_are_no_plugins, fresh, clean),
        cmocka_unit_test_setup_teardown(test_insecure_places, fresh, clean),
        cmocka_unit_test_setup_teardown(test_sticky_folders, fresh, clean),
        cmocka_unit_test_setup_teardown(test_search_order_and_shadowing, fresh, clean),
        cmocka_unit_test_setup_teardown(test_never_the_current_folder, fresh, clean),
        cmocka_unit_test_setup_teardown(test_unknown_names, fresh, clean),
        cmocka_unit_test_setup_teardown(test_all_plugins_of_the_tree_load, fresh, clean),
        cmocka_unit_test_setup_teardown(test_statuses_become_errors, fresh, clean),
        cmocka_unit_test_setup_teardown(test_modules, fresh, clean),
    };

    if (argc > 1 && strcmp(argv[1], PST_WORKER_FLAG) == 0) {
        return pst_isolate_child(argc, argv, NULL);
    }
    pst_worker_offer();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
