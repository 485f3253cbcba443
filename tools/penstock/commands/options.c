/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "config/job.h"

#define MAX_OPTIONS 32
#define OWN_BASE    256 /* values of long options, out of the way of letters */

enum {
    COMMON_JSON,
    COMMON_VERBOSE,
    COMMON_QUIET,
    COMMON_SET,
    COMMON_NO_PROFILE,
    COMMON_COLOR,
    COMMON_WIDE,
    COMMON_HELP,
    N_COMMON
};

static const struct pst_option common[N_COMMON] = {
    [COMMON_JSON] = {"json", 0, NULL, "machine-readable answer on standard output, nothing else"},
    [COMMON_VERBOSE] = {"verbose", 'v', NULL, "more log lines; twice for debugging"},
    [COMMON_QUIET] = {"quiet", 'q', NULL, "errors only, no progress"},
    [COMMON_SET] = {"set", 0, "KEY=VALUE", "override a key of the config, e.g. train.steps=10"},
    [COMMON_NO_PROFILE] = {"no-profile", 0, NULL,
                           "plan without operators measured on this machine"},
    [COMMON_COLOR] = {"color", 0, "WHEN", "auto (default), always or never"},
    [COMMON_WIDE] = {"wide", 0, NULL, "all columns of tables, whatever the terminal's width"},
    [COMMON_HELP] = {"help", 'h', NULL, "this text"},
};

const struct pst_option *const pst_common_options = common;
const uint32_t pst_n_common_options = N_COMMON;

static void print_option(const char *name, char letter, const char *value_name, const char *doc)
{
    char left[64], comma[8] = "    ";

    if (letter != 0) {
        snprintf(comma, sizeof comma, "-%c, ", letter);
    }
    snprintf(left, sizeof left, "%s--%s%s%s", comma, name, value_name == NULL ? "" : " ",
             value_name == NULL ? "" : value_name);
    printf("  %-26s %s\n", left, doc);
}

static bool has_parameters(const struct pst_command *command)
{
    uint32_t i = 0;

    while (i < command->n_options && strcmp(command->options[i].name, "options") != 0) {
        i++;
    }
    return i < command->n_options;
}

bool pst_option_applies(const struct pst_command *command, uint32_t i)
{
    return i != COMMON_SET || !has_parameters(command);
}

static void print_help(const struct pst_command *command)
{
    printf("penstock %s %s\n\n%s.\n", command->name, command->arguments, command->summary);
    if (command->text != NULL) {
        printf("\n%s\n", command->text);
    }
    fputs("\nOptions\n", stdout);
    for (uint32_t i = 0; i < command->n_options; i++) {
        const struct pst_option *option = &command->options[i];

        print_option(option->name, option->letter, option->value_name, option->doc);
    }
    for (uint32_t i = 0; i < N_COMMON; i++) {
        if (!pst_option_applies(command, i)) {
            continue;
        }
        print_option(common[i].name, common[i].letter, common[i].value_name, common[i].doc);
    }
}

/* The tables for getopt_long, made of both tables of options. */
struct tables {
    struct option longs[MAX_OPTIONS + N_COMMON + 1];
    char letters[2 * (MAX_OPTIONS + N_COMMON) + 3];
};

static void add(struct tables *tables, uint32_t i, const char *name, char letter, bool has_value)
{
    size_t n = strlen(tables->letters);

    tables->longs[i].name = name;
    tables->longs[i].has_arg = has_value ? required_argument : no_argument;
    tables->longs[i].flag = NULL;
    tables->longs[i].val = OWN_BASE + (int)i;
    if (letter != 0) {
        snprintf(tables->letters + n, sizeof tables->letters - n, "%c%s", letter,
                 has_value ? ":" : "");
    }
}

static void make_tables(struct tables *tables, const struct pst_command *command)
{
    const struct pst_option *options = command->options;

    memset(tables, 0, sizeof *tables);
    PST_ASSERT(command->n_options <= MAX_OPTIONS);
    strcpy(tables->letters, ":"); /* a missing value is told apart */
    for (uint32_t i = 0; i < N_COMMON; i++) {
        add(tables, i, common[i].name, common[i].letter, common[i].value_name != NULL);
    }
    for (uint32_t i = 0; i < command->n_options; i++) {
        add(tables, N_COMMON + i, options[i].name, options[i].letter,
            options[i].value_name != NULL);
    }
}

static pst_status fail_usage(const struct pst_command *command, struct pst_error *err,
                             const char *what, const char *word)
{
    pst_status status =
        pst_fail(err, PST_ERR_CONFIG, "usage", "%s: %s %s", command->name, what, word);

    pst_error_hint(err, "\"penstock %s --help\" lists the options", command->name);
    return status;
}

/* Refuses parameters after -o, which names an output, and points to --options. */
static pst_status fail_output(const struct pst_command *command, const char *word,
                              struct pst_error *err)
{
    pst_status status = fail_usage(command, err, "-o is for a file that is written, not for", word);

    pst_error_hint(err, "give parameters with --options or -O: -O key=value");
    return status;
}

/* An option or an argument that is a key of the config; `next`: the word that follows, or NULL. A
   key of a model may be any word: `nearest`, an option or NULL, is meant rather. */
static bool hint_key(const char *bare, const char *word, const char *next, const char *nearest,
                     struct pst_error *err)
{
    const char *equals = strchr(word, '='), *value = "VALUE";
    char set[PST_SHELL_TEXT], quoted[PST_SHELL_TEXT];
    struct pst_job_meant meant;

    if (!pst_job_key_meant(bare, &meant) ||
        (nearest != NULL && strncmp(meant.key, "model.", 6) == 0)) {
        return false;
    }
    if (meant.value != NULL || strcmp(bare, "gpu") == 0) {
        value = meant.value != NULL ? meant.value : "cuda"; /* core knows no ids */
    } else if (equals != NULL) {
        value = equals + 1;
    } else if (next != NULL && next[0] != '-' && !pst_text_ends(next, ".toml")) {
        value = next;
    }
    snprintf(set, sizeof set, "%s=%.200s", meant.key, value);
    pst_error_hint(err, "did you mean --set %s%s?", pst_text_for_shell(quoted, set), meant.remark);
    return true;
}

static pst_status fail_unknown(const struct pst_command *command, const struct tables *tables,
                               const char *word, const char *next, struct pst_error *err)
{
    const char *names[MAX_OPTIONS + N_COMMON], *nearest;
    char bare[128];
    uint32_t n = 0;
    pst_status status;

    while (tables->longs[n].name != NULL) {
        names[n] = tables->longs[n].name;
        n++;
    }
    /* getopt_long says no more of "--json=yes". */
    for (uint32_t i = 0; i < n && strncmp(word, "--", 2) == 0; i++) {
        size_t length = strlen(names[i]);

        if (strncmp(word + 2, names[i], length) == 0 && word[2 + length] == '=') {
            return fail_usage(command, err, "there must be no value in", word);
        }
    }
    if (strcmp(word, "-o") == 0 && has_parameters(command)) {
        return fail_output(command, "parameters", err);
    }
    status = fail_usage(command, err, "unknown option", word);
    snprintf(bare, sizeof bare, "%s", word + strspn(word, "-"));
    bare[strcspn(bare, "=")] = '\0';
    nearest = pst_nearest(bare, names, n);
    if ((has_parameters(command) || !hint_key(bare, word, next, nearest, err)) && nearest != NULL) {
        pst_error_hint(err, "did you mean --%s?", nearest);
    }
    return status;
}

static bool stream_is_colored(const char *when)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

    if (strcmp(when, "auto") != 0) {
        return strcmp(when, "always") == 0;
    }
    return isatty(STDOUT_FILENO) == 1 && (no_color == NULL || no_color[0] == '\0') &&
           term != NULL && strcmp(term, "dumb") != 0;
}

/* Carries out one common option. */
static pst_status take_common(const struct pst_command *command, uint32_t which, const char **color,
                              struct pst_cli *cli, struct pst_error *err)
{
    switch (which) {
    case COMMON_JSON:
        cli->json = true;
        break;
    case COMMON_VERBOSE:
        cli->verbosity++;
        break;
    case COMMON_QUIET:
        cli->verbosity = -1;
        break;
    case COMMON_SET:
        if (cli->n_sets == PST_CLI_SETS) {
            return fail_usage(command, err, "more than 64 times --set; the first beyond:", optarg);
        }
        if (strchr(optarg, '=') == NULL) {
            return fail_usage(command, err, "--set needs KEY=VALUE, not", optarg);
        }
        cli->sets[cli->n_sets++] = optarg;
        break;
    case COMMON_NO_PROFILE:
        setenv("PENSTOCK_NO_PROFILE", "1", 1); /* for processes apart, too */
        break;
    case COMMON_COLOR:
        if (strcmp(optarg, "auto") != 0 && strcmp(optarg, "always") != 0 &&
            strcmp(optarg, "never") != 0) {
            return fail_usage(command, err, "--color must be auto, always or never, not", optarg);
        }
        *color = optarg;
        break;
    case COMMON_WIDE:
        cli->wide = true;
        break;
    default:
        cli->help = true;
        break;
    }
    return PST_OK;
}

static const char *last_word(int argc, char **argv)
{
    return optind > 1 && optind <= argc ? argv[optind - 1] : "";
}

/* Index into tables->longs of what getopt_long returned: long options carry it, letters are sought.
 */
static uint32_t index_of(int code, const struct pst_option *options)
{
    uint32_t i = 0;

    if (code >= OWN_BASE) {
        return (uint32_t)(code - OWN_BASE);
    }
    while (i < N_COMMON && common[i].letter != code) {
        i++;
    }
    while (i >= N_COMMON && options[i - N_COMMON].letter != code) {
        i++;
    }
    return i;
}

/* --svg out.png: a figure whose name promises another format. */
static pst_status check_figure(const struct pst_command *command, const struct pst_option *option,
                               struct pst_error *err)
{
    static const char *const formats[] = {"svg", "png", "pdf"};
    const size_t n_name = strlen(option->name), n_file = strlen(optarg);
    const char *own = n_name < 3 ? "" : option->name + n_name - 3;
    const char *end = n_file < 4 ? "" : optarg + n_file - 4;
    bool draws = false;

    for (uint32_t i = 0; i < 3; i++) {
        draws = draws || strcmp(own, formats[i]) == 0;
    }
    for (uint32_t i = 0; draws && i < 3; i++) {
        if (end[0] == '.' && strcmp(end + 1, formats[i]) == 0 && strcmp(own, formats[i]) != 0) {
            return pst_fail(err, PST_ERR_CONFIG, "usage",
                            "%s: --%s writes %s, and \"%s\" ends in %s; did you mean --%.*s%s %s?",
                            command->name, option->name, own, optarg, end, (int)(n_name - 3),
                            option->name, formats[i], optarg);
        }
    }
    return PST_OK;
}

/* Stores the value of an option of the command's own in the request. */
static pst_status take_own(const struct pst_command *command, const struct pst_option *option,
                           void *request, struct pst_error *err)
{
    void *to = (unsigned char *)request + option->offset;
    int64_t number;

    if (option->letter == 'o' && strchr(optarg, '=') != NULL && has_parameters(command)) {
        return fail_output(command, optarg, err);
    }
    if (option->value_name == NULL) {
        *(bool *)to = true;
    } else if (option->most == 0) {
        *(const char **)to = optarg;
        return check_figure(command, option, err);
    } else if (pst_number_parse_int(optarg, &number) && number >= 1 && number <= option->most) {
        *(uint32_t *)to = (uint32_t)number;
    } else {
        return pst_fail(err, PST_ERR_CONFIG, "usage",
                        "%s: --%s must be a number from 1 to %u, not \"%s\"", command->name,
                        option->name, option->most, optarg);
    }
    return PST_OK;
}

static pst_status parse(const struct pst_command *command, const struct tables *tables, int argc,
                        char **argv, void *request, const char **color, struct pst_cli *cli,
                        struct pst_error *err)
{
    pst_status status = PST_OK;
    int code;

    optind = 0; /* starts over, also after another command line of this process */
    opterr = 0;
    while (status == PST_OK &&
           (code = getopt_long(argc, argv, tables->letters, tables->longs, NULL)) != -1) {
        uint32_t i;

        if (code == ':') {
            return fail_usage(command, err, "a value is missing after", last_word(argc, argv));
        }
        if (code == '?') {
            char letter[3] = {'-', (char)optopt, '\0'};

            return fail_unknown(command, tables,
                                optopt != 0 && optopt < OWN_BASE ? letter : last_word(argc, argv),
                                optind < argc ? argv[optind] : NULL, err);
        }
        i = index_of(code, command->options);
        status = i < N_COMMON ? take_common(command, i, color, cli, err)
                              : take_own(command, &command->options[i - N_COMMON], request, err);
        if (i >= N_COMMON && optarg != NULL && pst_text_ends(optarg, ".toml")) {
            cli->taken = optarg;
            cli->taken_by = &command->options[i - N_COMMON];
        }
    }
    return status;
}

pst_status pst_options_parse(const struct pst_command *command, int argc, char **argv,
                             void *request, struct pst_cli *ret_cli, struct pst_error *err)
{
    struct tables tables;
    const char *color = "auto";
    pst_status status;

    memset(ret_cli, 0, sizeof *ret_cli);
    ret_cli->command = command;
    make_tables(&tables, command);
    status = parse(command, &tables, argc, argv, request, &color, ret_cli, err);
    if (status != PST_OK) {
        return status;
    }
    ret_cli->n_arguments = (uint32_t)(argc - optind);
    ret_cli->arguments = argv + optind;
    ret_cli->color = stream_is_colored(color);
    if (ret_cli->verbosity != 0) {
        pst_log_set_level(ret_cli->verbosity < 0    ? PST_LOG_ERROR
                          : ret_cli->verbosity == 1 ? PST_LOG_INFO
                                                    : PST_LOG_DEBUG);
    }
    if (ret_cli->help) {
        print_help(command);
    }
    return PST_OK;
}

/* "--resume job.toml": no argument is left, since the option took it. */
static void hint_taken(const struct pst_cli *cli, struct pst_error *err)
{
    const struct pst_option *option = cli->taken_by;
    char word[PST_SHELL_TEXT];

    pst_text_for_shell(word, cli->taken);
    pst_error_hint(err, "--%s took %s as its value: write --%s %.*s %s", option->name, word,
                   option->name, (int)strcspn(option->value_name, "|"), option->value_name, word);
}

pst_status pst_options_arguments(const struct pst_command *command, const struct pst_cli *cli,
                                 uint32_t min, uint32_t max, struct pst_error *err)
{
    const char *extra = cli->n_arguments > max ? cli->arguments[max] : "";
    char bare[128];
    pst_status status;

    if (cli->n_arguments >= min && cli->n_arguments <= max) {
        return PST_OK;
    }
    status = cli->n_arguments < min
                 ? pst_fail(err, PST_ERR_CONFIG, "usage", "%s: %s is missing", command->name,
                            command->arguments)
                 : pst_fail(err, PST_ERR_CONFIG, "usage", "%s: unexpected argument \"%s\"",
                            command->name, extra);
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(extra, "="), extra);
    if (cli->n_arguments == 0 && cli->taken != NULL &&
        strncmp(command->arguments, "CONFIG", 6) == 0) {
        hint_taken(cli, err);
    } else if (strchr(extra, '=') == NULL || has_parameters(command) ||
               !hint_key(bare, extra, NULL, NULL, err)) {
        pst_error_hint(err, "penstock %s%s%s", command->name,
                       command->arguments[0] == '\0' ? "" : " ", command->arguments);
    }
    return status;
}

bool pst_options_want_json(int argc, char *const *argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            return true;
        }
    }
    return false;
}
