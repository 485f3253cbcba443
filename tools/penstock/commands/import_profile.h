/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock import pipedream-profile FILE`: somebody else's measurements as a graph to plan for.
 */
#ifndef PST_COMMANDS_IMPORT_PROFILE_H
#define PST_COMMANDS_IMPORT_PROFILE_H

#include "commands/options.h"

/* As on the command line; NULL or 0 where it says nothing. */
struct pst_import_profile {
    const char *file, *output, *inputs;
    uint32_t batch;
    bool keep_empty;
};

/* Writes the graph to `output`, unless that is NULL, and tells about it. */
pst_status pst_import_profile(struct pst_cli *cli, const struct pst_import_profile *request,
                              struct pst_error *err);

#endif
