/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "commands/commands.h"
#include "commands/print_error.h"
#include "conformance/conformance.h"
#include "host/apart.h"
#include "host/plugin_host.h"
#include "train/isolate.h"
#include "train/stop.h"
#include "train/team.h"
#include "tune/advise.h"

static const struct pst_command *const commands[] = {
    &pst_cmd_train,   &pst_cmd_plan,     &pst_cmd_simulate,  &pst_cmd_compare, &pst_cmd_tune,
    &pst_cmd_profile, &pst_cmd_schedule, &pst_cmd_partition, &pst_cmd_memopt,  &pst_cmd_export,
    &pst_cmd_import,  &pst_cmd_check,    &pst_cmd_plugins,   &pst_cmd_doctor,
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

/* The modules that come with penstock, in this build or in another: core itself names none. */
static const struct pst_module_known shipped_modules[] = {
    {"device", "cpu", NULL, NULL, PST_MODULE_USUAL},
    {"device", "cuda", "NVIDIA GPUs", NULL, 0},
    {"transport", "threads", NULL, NULL, PST_MODULE_USUAL | PST_MODULE_SHARES},
    {"transport", "mpi", "devices on several machines; it takes libopenmpi-dev and openmpi-bin",
     NULL, PST_MODULE_PROCESSES},
    {"transport", "nccl", "links between NVIDIA GPUs; it takes CUDA and libnccl-dev", "cuda",
     PST_MODULE_PROCESSES | PST_MODULE_IN_STREAMS},
    {NULL, NULL, NULL, NULL, 0},
};

static const struct pst_command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static void print_usage(FILE *out)
{
    fputs("penstock COMMAND [arguments] [options]\n\n"
          "Trains neural networks as pipelines over several devices.\n\nCommands\n",
          out);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("\n\"penstock COMMAND --help\" tells more; \"penstock --version\" the version.\n", out);
}

/* "no WHAT "WORD"; did you mean ...?", or where all are listed. */
static pst_status fail_word(struct pst_error *err, const char *who, const char *what,
                            const char *word, const char *const *names, uint32_t n)
{
    char hint[96];

    pst_fail(err, PST_ERR_CONFIG, "usage", "%s%sno %s \"%s\"%s", who, who[0] == '\0' ? "" : ": ",
             what, word, pst_nearest_hint(hint, word, names, n));
    if (hint[0] == '\0') {
        pst_error_hint(err, "\"penstock %s%s--help\" lists them", who, who[0] == '\0' ? "" : " ");
    }
    return PST_ERR_CONFIG;
}

static int fail_command(const char *word, bool json)
{
    const char *names[N_COMMANDS];
    struct pst_error err = {0};

    for (uint32_t i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i]->name;
    }
    fail_word(&err, "", "command", word, names, N_COMMANDS);
    return pst_print_error(&err, json);
}

static bool wants_json;

/* Of base/memory.h. As any failure ends a command, without what it holds being put away. */
static void end_without_memory(void)
{
    struct pst_team *team = pst_team_joined();
    struct pst_error err;
    bool prints = true;
    int code;

    pst_file_abandon_writes();
    pst_fail_nomem(&err);
    if (team != NULL) {
        pst_team_settle(team, err.status, &err, &prints);
    }
    code = prints ? pst_print_error(&err, wants_json) : pst_error_exit_code(&err);
    if (team != NULL) {
        pst_team_leave(team, code);
    }
    _exit(code);
}

static int run(const struct pst_command *command, int argc, char **argv, bool json)
{
    void *request = pst_alloc(1, command->request_size + 1);
    struct pst_error err = {0};
    struct pst_cli cli;
    int code = 0;
    pst_status st = pst_options_parse(command, argc, argv, request, &cli, &err);

    if (st == PST_OK) {
        json = cli.json;
        st = cli.help
                 ? PST_OK
                 : pst_options_arguments(command, &cli, command->words[0], command->words[1], &err);
    }
    if (st == PST_OK && !cli.help) {
        pst_json_object(&cli.answer, NULL);
        if (command->heeds_signals) {
            pst_stop_install();
        }
        st = command->run(&cli, request, &err);
        st = st == PST_ERR_CANCELLED && pst_stop_requested() ? pst_stop_fail(&err) : st;
        pst_json_end(&cli.answer, '}');
    }
    if (st == PST_OK && cli.answer.length > sizeof "{}" - 1) {
        printf("%s\n", cli.answer.text);
    }
    if (!cli.told) {
        code = pst_cli_end(st, json, &err);
    }
    pst_json_finish(&cli.answer);
    free(request);
    return code != 0 ? code : cli.code;
}

int pst_cli_run(int argc, char **argv)
{
    const struct pst_command *command;
    bool json = pst_options_want_json(argc, argv);
    struct pst_error err = {0};

    wants_json = json;
    pst_modules_tell(shipped_modules);
    pst_on_out_of_memory(end_without_memory);
    if (argc > 1 && strcmp(argv[1], PST_WORKER_FLAG) == 0 &&
        !pst_isolate_child(argc, argv, pst_tune_plan)) {
        return fail_command(argv[1], false); /* nobody's business but the planner's */
    }
    if (argc > 1 && strcmp(argv[1], PST_CONFORMANCE_CHILD) == 0) {
        return pst_conformance_child(argc, argv);
    }
    pst_worker_offer();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
    signal(SIGCHLD, SIG_DFL);
    if (argc < 2) {
        if (!json) {
            print_usage(stderr);
            return 2;
        }
    } else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
               strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return pst_cli_end(PST_OK, json, &err);
    } else if (strcmp(argv[1], "--version") == 0) {
        printf(json ? "{\"version\":\"%s\"}\n" : "penstock %s\n", PENSTOCK_VERSION);
        return pst_cli_end(PST_OK, json, &err);
    }
    command = argc < 2 ? NULL : find_command(argv[1]);
    if (command == NULL) {
        return fail_command(argc < 2 ? "" : argv[1], json);
    }
    return run(command, argc - 1, argv + 1, json);
}

pst_status pst_cli_usage(const struct pst_cli *cli, struct pst_error *err, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return pst_fail(err, PST_ERR_CONFIG, "usage", "%s: %s", cli->command->name, text);
}

pst_status pst_cli_choose(const struct pst_cli *cli, const char *what, const char *word,
                          const char *const *names, uint32_t *ret_index, struct pst_error *err)
{
    uint32_t n = 0;

    for (; names[n] != NULL; n++) {
        if (strcmp(word, names[n]) == 0) {
            *ret_index = n;
            return PST_OK;
        }
    }
    return fail_word(err, cli->command->name, what, word, names, n);
}

pst_status pst_cli_flush(struct pst_error *err)
{
    int why = errno; /* of a write before, if one failed: flushing has nothing left to say then */
    bool failed = ferror(stdout) != 0;

    if (fflush(stdout) != 0) {
        failed = true;
        why = errno;
    }
    if (failed && why != EPIPE) {
        return pst_fail(err, PST_ERR_IO, "output.write", "cannot write to standard output: %s",
                        strerror(why));
    }
    return PST_OK;
}

int pst_cli_end(pst_status st, bool json, struct pst_error *err)
{
    if (st != PST_OK) {
        return pst_print_error(err, json);
    }
    return pst_cli_flush(err) == PST_OK ? 0 : pst_print_error(err, false);
}
