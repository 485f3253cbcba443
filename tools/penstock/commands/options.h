/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a command: those that every command takes, and its own as rows of a table, from which
 * the help is printed as well.
 */
#ifndef PST_COMMANDS_OPTIONS_H
#define PST_COMMANDS_OPTIONS_H

#include "base/error.h"

#define PST_CLI_SETS 64

/* What every command is run with. */
struct pst_cli {
    bool json, help, color;         /* color: of standard output */
    int verbosity;                  /* -q: -1; each -v: +1 */
    const char *sets[PST_CLI_SETS]; /* --set key=value, in order */
    uint32_t n_sets;
    uint32_t n_arguments; /* what is left: files, names */
    char *const *arguments;
};

/* One option of a command's own. Exactly one of flag and value is set. */
struct pst_option {
    const char *name;
    char letter;            /* or 0 */
    const char *value_name; /* in the help; NULL for a flag */
    const char *doc;
    bool *flag;
    const char **value;
};

struct pst_command {
    const char *name, *arguments, *summary;
    const char *text; /* a paragraph for --help, or NULL */
    int (*run)(const struct pst_command *command, int argc, char **argv);
};

/*
 * Reads argv[1] ... (argv[0] is the command's name); ends verbosity and colour questions. Errors:
 * PST_ERR_CONFIG, kind "usage". With --help: prints it and sets ret_cli->help.
 */
pst_status pst_options_parse(const struct pst_command *command, const struct pst_option *options,
                             uint32_t n_options, int argc, char **argv, struct pst_cli *ret_cli,
                             struct pst_error *err);

/* PST_ERR_CONFIG, kind "usage", unless min <= n_arguments <= max. */
pst_status pst_options_arguments(const struct pst_command *command, const struct pst_cli *cli,
                                 uint32_t min, uint32_t max, struct pst_error *err);

/* Is --json among the words of a command line that may be wrong in other ways? */
bool pst_options_want_json(int argc, char *const *argv);

#endif
