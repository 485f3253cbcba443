/* SPDX-License-Identifier: Apache-2.0
 *
 * A generated problem as a file, and a partitioner asked about it. Include once, after cmocka.
 */
#ifndef PENSTOCK_TESTS_ASK_RIG_H
#define PENSTOCK_TESTS_ASK_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "partition_rig.h"
#include "plugin/solo_partition.h"

/* The problem of *c with options (a JSON object or NULL). pst_problem_destroy it. */
static inline struct pst_problem *ask_problem(const struct rig_case *c, const char *options)
{
    char path[] = "/tmp/penstock-partition-XXXXXX", *text = rig_problem_json(c, options);
    struct pst_problem *problem = NULL;
    struct pst_error err = {0};
    int fd = mkstemp(path);
    pst_status st;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    free(text);
    st = pst_problem_read(path, &problem, &err);
    unlink(path);
    if (st != PST_OK) {
        fail_msg("%s", err.message);
    }
    return problem;
}

/* cancelled may be NULL. The result is to be finished where the status is PST_OK. */
static inline pst_status ask_rig(const struct rig_case *c, const char *id, const char *options,
                                 bool (*cancelled)(void), struct pst_partition_result *result,
                                 struct pst_error *err)
{
    struct pst_problem *problem = ask_problem(c, options);
    const struct pst_partition_job job = {.id = id, .problem = problem};
    pst_status st;

    memset(err, 0, sizeof *err);
    st = pst_partition_solo_run(&job, cancelled, result, err);
    pst_problem_destroy(problem);
    return st;
}

#endif
