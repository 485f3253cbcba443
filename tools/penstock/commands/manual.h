/* SPDX-License-Identifier: Apache-2.0
 *
 * Manual pages and shell completion, made of the tables that commands and options stand in.
 */
#ifndef PST_COMMANDS_MANUAL_H
#define PST_COMMANDS_MANUAL_H

#include <stdio.h>

#include "commands/options.h"

/* All commands, in the order of the help. */
struct pst_manual {
    const struct pst_command *const *commands;
    uint32_t n_commands;
};

/* The page of a command; NULL: of the program. For man(1), in its classic macros. */
void pst_manual_page(const struct pst_manual *manual, const struct pst_command *command, FILE *out);

/* Completes commands, options, files, ids of plugins, keys and values of --set. The program itself
   is asked for the last three.
   shell: "bash", "zsh" or "fish"; false: it is none of them. */
bool pst_manual_completion(const struct pst_manual *manual, const char *shell, FILE *out);

/* The lines that may stand after --set and begin with `text`: keys, or values of a key. */
pst_status pst_manual_complete_set(const char *text, FILE *out, struct pst_error *err);

/* All of that into a folder as <prefix>/share has it. Errors: output.write. */
pst_status pst_manual_install(const struct pst_manual *manual, const char *folder,
                              struct pst_error *err);

#endif
