/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that put a problem file to one plugin share: `partition` and `memopt`.
 */
#ifndef PST_COMMANDS_PROBLEM_REQUEST_H
#define PST_COMMANDS_PROBLEM_REQUEST_H

#include "commands/options.h"
#include "commands/solo.h"
#include "graph/problem.h"

/* The first three are filled by options; the rest by pst_cli_problem_read. */
struct pst_cli_problem_request {
    const char *problem_file, *options, *time_limit;
    uint64_t time_limit_ns;
    const char *id, *path;       /* of the plugin: one of the two */
    struct pst_problem *problem; /* pst_problem_destroy it */
};

/* Reads the problem and lets --options take the place of its options. `command` and `who` ("the
   partitioner") are for messages. Errors: usage; those of pst_problem_read and of the list. */
pst_status pst_cli_problem_read(struct pst_cli_problem_request *request, const struct pst_cli *cli,
                                const char *command, const char *who, struct pst_error *err);

/* Of what a run ended with: a parameter's error names where it was written, a signal wins. */
pst_status pst_cli_problem_blame(const struct pst_cli_problem_request *request, pst_status st,
                                 struct pst_error *err);

/* Prints {key: name, answer: false, "error": ...}, as "no" is an answer as well; the exit code. */
int pst_cli_problem_no(const struct pst_cli_problem_request *request, const char *key,
                       const char *answer, const struct pst_error *err);

#endif
