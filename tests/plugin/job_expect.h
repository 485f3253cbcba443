/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that are refused, by whom and with which words; strategies of the gallery beside those of
 * the tree, where the test is compiled with GALLERY. Include cmocka before.
 */
#ifndef TEST_JOB_EXPECT_H
#define TEST_JOB_EXPECT_H

#include <stdio.h>

#include "job_rig.h"

#define MODEL                                                                                      \
    "[model]\nuse = \"mlp\"\nlayers = 4\ninputs = 32\nhidden = 32\n[data]\nkind = \"synthetic\"\n"
#define TRAIN       "[train]\nbatch = 8\nmicrobatch = 2\n"
#define TWO         "[cluster]\ndevices = 2\n"
#define CHAIN_DP    "[partitioner]\nuse = \"chain-dp\"\n"
#define ONE_F_ONE_B "[scheduler]\nuse = \"1f1b\"\n"

static inline void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, text);
    }
}

/* Plans, and frees what came out. */
static inline pst_status try(const char *toml, struct pst_error *ret_err)
{
    struct pst_planned planned = {.plan = NULL};
    struct job_rig rig;
    pst_status st = job_rig_plan(&rig, toml, &planned);

    *ret_err = rig.err;
    pst_planned_finish(&planned);
    job_rig_finish(&rig);
    return st;
}

static inline void expect(const char *toml, const char *kind, int exit_code, const char *words)
{
    struct pst_error err;

    assert_int_not_equal(try(toml, &err), PST_OK);
    if (strcmp(err.kind, kind) != 0) {
        fail_msg("%s: %s; expected %s", err.kind, err.message, kind);
    }
    assert_int_equal(pst_error_exit_code(&err), exit_code);
    assert_contains(err.message, words);
}

static inline int with_gallery(void **state)
{
    return setenv("PENSTOCK_PLUGIN_PATH", GALLERY, 1);
}

static inline int without_gallery(void **state)
{
    return unsetenv("PENSTOCK_PLUGIN_PATH");
}

struct lie {
    const char *lie, *kind;
    int exit_code;
    const char *words;
};

static inline void check_lies(const char *format, const struct lie *lies, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char toml[1024];

        snprintf(toml, sizeof toml, format, lies[i].lie);
        expect(toml, lies[i].kind, lies[i].exit_code, lies[i].words);
    }
}

#endif
