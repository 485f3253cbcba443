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
    const char *id, *path; /* of the plugin: one of the two */
    struct pst_problem *problem;
};

/* Rows of a table of options, for `field` of the request. */
#define PST_CLI_PROBLEM_OPTIONS(request, field, what, who, one)                                    \
    {"problem", 'p', "FILE", what, offsetof(request, field.problem_file), 0},                      \
        {"options",                                                                                \
         'o',                                                                                      \
         "LIST",                                                                                   \
         "parameters of the " who ": key=value,...",                                               \
         offsetof(request, field.options),                                                         \
         0},                                                                                       \
    {                                                                                              \
        "time-limit", 0, "TIME", "for " one " that is not penstock's own; 10 min",                 \
            offsetof(request, field.time_limit), 0                                                 \
    }

/* Reads the problem and lets --options take the place of its options. `who` ("the partitioner") is
   for messages. Errors: usage; those of pst_problem_read and of the list. */
pst_status pst_cli_problem_read(struct pst_cli_problem_request *request, const struct pst_cli *cli,
                                const char *who, struct pst_error *err);

/* Of what a run ended with: a parameter's error names where it was written. */
pst_status pst_cli_problem_blame(const struct pst_cli_problem_request *request, pst_status st,
                                 struct pst_error *err);

/* Ends the request. To --json "no" is an answer as well: {key: name, answer: false, "error": ...}.
   Returns st where it is another one. */
pst_status pst_cli_problem_end(struct pst_cli_problem_request *request, struct pst_cli *cli,
                               pst_status st, const char *key, const char *answer,
                               struct pst_error *err);

#endif
