/* SPDX-License-Identifier: Apache-2.0
 *
 * The child of the plugin checker: one test of one plugin. Arguments: FILE TEST SEED FOLDER
 * [key=value ...].
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "conformance/answer.h"
#include "conformance/tests.h"
#include "conformance/verdict.h"
#include "host/plugin_host.h"
#include "host/process.h"

/* Kinds that a plan is made with. */
#define PLANNED "partitioner scheduler memopt model data"

const struct pst_conformance_test pst_conformance_tests[] = {
    {"load", "loads quickly, without output, threads, files or other traces", .run = pst_test_load,
     .first = true},
    {"exports", "exports pst_plugin_entry alone, imports nothing from penstock",
     .run = pst_test_exports},
    {"description", "description, parameter rows and defaults are sound",
     .run = pst_test_description},
    {"interfaces", "gives its interface for the exact id, NULL for every other",
     .run = pst_test_interfaces},
    {"lifecycle", "is created and destroyed a thousand times without growth",
     .run = pst_test_lifecycle},
    {"growth", "keeps no more memory however often it is asked", .run = pst_test_growth},
    {"answers", "answers random questions legally", .run = pst_test_answers},
    {"edges", "answers or explains a refusal at the edges, never crashes", .run = pst_test_edges},
    {"repeats", "gives the same answer to the same question, in every process",
     .run = pst_test_repeats, .twice = true},
    {"two-instances", "two instances at once do not disturb each other",
     .run = pst_test_two_instances},
    {"newer-host", "gives the same answer to a host with longer structs",
     .run = pst_test_newer_host},
    {"bare-host", "works or refuses where the host has no extensions", .run = pst_test_bare_host},
    {"allocations", "survives the failure of every allocation", .run = pst_test_allocations},
    {"plan", "makes legal plans of small models with the other strategies; a model trains",
     .run = pst_test_plan, .twice = true, .kinds = PLANNED},
    {"cancel", "ends a search within 2 s when it is cancelled", .run = pst_test_cancel,
     .kinds = PLANNED},
    {"gradients", "its gradients are those of its forward pass", .run = pst_test_gradients,
     .kinds = "operator"},
    {"kernels", "same bits for any threads and micro-batches, nothing else written",
     .run = pst_test_kernels, .kinds = "operator"},
};

const uint32_t pst_conformance_n_tests =
    sizeof pst_conformance_tests / sizeof pst_conformance_tests[0];

/* No core files, no bytes into files, a bounded address space. */
static void limit_self(void)
{
    static const struct rlimit none = {0, 0};
    struct rlimit file;

    setrlimit(RLIMIT_CORE, &none);
    if (getrlimit(RLIMIT_FSIZE, &file) == 0) {
        file.rlim_cur = 0; /* a plugin that sets its own limits is seen by the other one */
        setrlimit(RLIMIT_FSIZE, &file);
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#if PST_CONFORMANCE_SLOWDOWN == 1
    static const struct rlimit memory = {(rlim_t)8 << 30, (rlim_t)8 << 30};

    setrlimit(RLIMIT_AS, &memory);
#endif
}

/* Where programs put what they keep: there a file is found. */
static void move_home(const char *folder)
{
    static const char *const names[] = {"HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
                                        "XDG_DATA_HOME"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (setenv(names[i], folder, 1) != 0) {
            pst_verdict_skip("the checker ran out of memory");
        }
    }
}

static void read_parameters(int n, char **sets, struct pst_subject *subject)
{
    struct pst_config *config = NULL;
    struct pst_error err = {0};

    if (n == 0) {
        return;
    }
    if (pst_config_from_sets((const char *const *)sets, (uint32_t)n, &config, &err) != PST_OK) {
        pst_verdict_refuse("--set: %s", err.message);
    }
    subject->sets = (const char *const *)sets;
    subject->n_sets = (uint32_t)n;
    subject->parameters = config->root; /* lives as long as the process */
}

static const struct pst_conformance_test *find_test(const char *name)
{
    for (uint32_t i = 0; i < pst_conformance_n_tests; i++) {
        if (strcmp(pst_conformance_tests[i].name, name) == 0) {
            return &pst_conformance_tests[i];
        }
    }
    return NULL;
}

static void skip_without_memory(void)
{
    pst_verdict_skip("the checker ran out of memory");
}

/* The host warns of what it leaves out of an answer. */
static void fail_by_log(uint32_t level, const char *area, const char *text)
{
    (void)area;
    if (level <= PST_LOG_WARN) {
        pst_verdict_fail("%s", text);
    }
}

/* In a job such descriptors are the planner's: a plugin that closes what is not its own is found.
 */
static void open_descriptors(void)
{
    int fd = 0;

    while (fd >= 0 && fd < 8) {
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
}

int pst_conformance_child(int argc, char **argv)
{
    const struct pst_conformance_test *test = argc >= 6 ? find_test(argv[3]) : NULL;
    struct pst_verdict *page = test == NULL ? NULL : pst_verdict_open();
    struct pst_subject subject = {0};
    struct pst_error err = {0};

    if (page == NULL) {
        fputs("penstock: this mode belongs to \"penstock plugins check\"\n", stderr);
        return 2;
    }
    pst_on_out_of_memory(skip_without_memory);
    pst_log_set_sink(fail_by_log);
    pst_breadcrumb_use(&page->crumbs, NULL, pst_answer_watch);
    if (!pst_process_step_behind(0, pst_verdict_ended)) {
        pst_verdict_skip("cannot start a process for the plugin: %s", strerror(errno));
    }
    open_descriptors();
    limit_self();
    move_home(argv[5]);
    subject.path = argv[2];
    subject.seed = strtoull(argv[4], NULL, 10);
    subject.folder = argv[5];
    if (chdir(subject.folder) != 0) {
        pst_verdict_skip("cannot use the folder %s", subject.folder);
    }
    if (!test->first) {
        if (pst_plugin_open(subject.path, NULL, NULL, &subject.plugin, &err) != PST_OK) {
            pst_verdict_fail("%s", err.message);
        }
        read_parameters(argc - 6, argv + 6, &subject);
    }
    test->run(&subject);
    pst_verdict_pass();
}
