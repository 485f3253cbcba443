/* SPDX-License-Identifier: Apache-2.0
 *
 * What this machine, this build and this environment are, as `doctor` tells it.
 */
#ifndef PST_COMMANDS_MACHINE_H
#define PST_COMMANDS_MACHINE_H

#include "base/arena.h"
#include "base/error.h"

struct pst_machine_fact {
    const char *name, *text;
};

/* A device or transport module next to the binary. */
struct pst_machine_module {
    const char *kind, *id, *text;
    bool usable;
};

struct pst_machine {
    struct pst_arena arena; /* owns every text */
    const char *version, *compiler, *system, *processor;
    uint32_t cores, usable_cores; /* online; allowed by the affinity mask */
    uint64_t memory_bytes, available_bytes;
    uint64_t planner_bytes;   /* what a process for planning may take */
    const char *trusted_list; /* of plugins that run in this process */
    uint32_t n_modules, n_libraries, n_folders, n_variables;
    struct pst_machine_module modules[32];
    struct pst_machine_fact libraries[8], variables[64];
    uint32_t n_missing;
    struct pst_machine_fact missing[16]; /* what a config cannot say here, and why */
    const char *folders[32];
};

pst_status pst_machine_examine(struct pst_machine *ret_machine, struct pst_error *err);
void pst_machine_finish(struct pst_machine *machine);

#endif
