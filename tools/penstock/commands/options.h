/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a command: those that every command takes, and its own as rows of a table, from which
 * the help is printed as well.
 */
#ifndef PST_COMMANDS_OPTIONS_H
#define PST_COMMANDS_OPTIONS_H

#include <stddef.h>

#include "base/error.h"
#include "base/json.h"

#define PST_CLI_SETS 64

/* Called if memory runs out, or NULL: it removes what the command has begun, and must not
   allocate. */
extern void (*pst_cli_undo)(void);

/* The state of a command: its common options, arguments, answer and error. */
struct pst_cli {
    const struct pst_command *command;
    bool json, help, wide;
    bool color;                     /* of standard output */
    int verbosity;                  /* -q: -1; each -v: +1 */
    const char *sets[PST_CLI_SETS]; /* --set key=value, in order */
    uint32_t n_sets;
    struct pst_config *config; /* that the command has open, or NULL: failures say what it names */
    const char *taken; /* a value of an option that looks like a config, or NULL; and the option */
    const struct pst_option *taken_by;
    uint32_t n_arguments; /* what is left: files, names */
    char *const *arguments;
    struct pst_json answer; /* of --json: an object that is open; printed where all went well */
    int code;               /* exit code of a command that worked */
    bool told;              /* it has told how it ended, failure or not */
    struct pst_error err;   /* of one that fails: pst_cli_must tells it */
};

/* One option of a command's own: where in its request the value goes. */
struct pst_option {
    const char *name;
    char letter;            /* or 0 */
    const char *value_name; /* in the help; NULL for a flag */
    const char *doc;
    size_t offset; /* of a bool, a const char * or, with `most`, a uint32_t */
    uint32_t most; /* a whole number from 1 to this; 0: any text */
};

/* Options that every command has; offset and most are not used. */
extern const struct pst_option *const pst_common_options;
extern const uint32_t pst_n_common_options;

struct pst_command;
/* Does the command have common option i? Those that ask a plugin alone have no config to --set. */
bool pst_option_applies(const struct pst_command *command, uint32_t i);

/* In a row: a field of what each command calls its request. */
#define PST_AT(field) offsetof(struct request, field)

/* A first argument, and what may stand after it, for completion. */
struct pst_action {
    const char *name;
    const char *offers, *asks; /* as those of a command */
};

struct pst_command {
    const char *name, *arguments, *summary;
    const char *text;                 /* a paragraph for --help, or NULL */
    const char *offers, *asks;        /* for completion: words that may be arguments, and the kind
                                         of plugin whose ids may ("all": any kind); or NULL */
    const struct pst_action *actions; /* instead of those, ended by a name that is NULL; or NULL */
    uint32_t words[2];                /* of the arguments, from and to */
    const struct pst_option *options; /* its own */
    uint32_t n_options;
    size_t request_size;  /* of what run() gets: zeroed, then filled by the options */
    bool handles_signals; /* asks for pst_stop_requested; others are ended at once by a signal */
    void (*run)(struct pst_cli *cli, void *request);
};

/*
 * Reads argv[1] ... (argv[0] is the command's name) into the request; ends verbosity and colour
 * questions. Errors: PST_ERR_CONFIG, kind "usage". With --help: prints it and sets ret_cli->help.
 */
pst_status pst_options_parse(const struct pst_command *command, int argc, char **argv,
                             void *request, struct pst_cli *ret_cli, struct pst_error *err);

/* PST_ERR_CONFIG, kind "usage", unless min <= n_arguments <= max. */
pst_status pst_options_arguments(const struct pst_command *command, const struct pst_cli *cli,
                                 uint32_t min, uint32_t max, struct pst_error *err);

/* Is --json among the words of a command line that may be wrong in other ways? */
bool pst_options_want_json(int argc, char *const *argv);

#endif
