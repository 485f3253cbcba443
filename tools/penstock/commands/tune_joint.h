/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock tune` over whole spaces: the search of each config's, what it tried, the best few once
 * more.
 */
#ifndef PST_COMMANDS_TUNE_JOINT_H
#define PST_COMMANDS_TUNE_JOINT_H

#include "commands/combinations.h"
#include "reports/tried.h"

/* Planning of one combination in a search: it is worth some hundred others. Of the processor. */
#define PST_CLI_PATIENCE_NS 10000000000u

struct pst_cli_joint {
    struct pst_goal goal;
    uint32_t budget, n_jobs; /* trials of each config; processes, 0: as many as there are cores */
    uint64_t seed, time_ns;  /* time_ns: when no trial is begun any more; 0: never */
    bool blind;              /* no search, points by chance */
    uint32_t n_finalists;    /* that are planned again, with all that planning can do */
    const char *resume;      /* file of what was tried, or NULL */
    bool keep_plan;          /* that of the best, at any time */
    struct pst_joint_found found;
    struct pst_tried tried;
    pst_status kept; /* not PST_OK: records are missing in the file, `lost` says why */
    struct pst_error lost;
};

/* Into the result, by their number: the records of all that was tried. Its provenance is there. */
void pst_cli_joint_search(struct pst_cli *cli, const struct pst_cli_sets *sets,
                          struct pst_cli_joint *joint, struct pst_compare_result *result);
/* The best few of a result, which keep their plans. ret_order: [n_finalists]. Returns how many. */
uint32_t pst_cli_joint_finish(struct pst_cli *cli, const struct pst_cli_sets *sets,
                              const struct pst_cli_joint *joint, struct pst_compare_result *result,
                              uint32_t *ret_order);

#endif
