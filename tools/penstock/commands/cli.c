/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ask/problem_memopt.h"
#include "ask/problem_partition.h"
#include "ask/schedule_job.h"
#include "base/cache.h"
#include "base/json.h"
#include "base/mpi_environment.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/util.h"
#include "commands/commands.h"
#include "commands/manual.h"
#include "commands/print_error.h"
#include "commands/reference.h"
#include "commands/searching.h"
#include "commands/terminal.h"
#include "config/tree.h"
#include "conformance/conformance.h"
#include "exec/exec.h"
#include "host/apart.h"
#include "host/breadcrumb.h"
#include "host/describe.h"
#include "host/plugin_host.h"
#include "models/plugin/model_plugin.h"
#include "reports/table.h"
#include "session/isolate.h"
#include "session/team.h"
#include "tune/advise.h"

static const struct pst_command *const commands[] = {
    &pst_cmd_train,    &pst_cmd_evaluate,  &pst_cmd_generate, &pst_cmd_plan,
    &pst_cmd_simulate, &pst_cmd_compare,   &pst_cmd_tune,     &pst_cmd_profile,
    &pst_cmd_schedule, &pst_cmd_partition, &pst_cmd_memopt,   &pst_cmd_export,
    &pst_cmd_import,   &pst_cmd_check,     &pst_cmd_plugins,  &pst_cmd_doctor,
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

static bool wants_json;

static _Noreturn void fail(const struct pst_error *err)
{
    pst_searching_end();
    pst_cli_leave(pst_print_error(err, wants_json));
}

/* The modules that come with penstock, in this build or in another: core itself names none. */
static const struct pst_module_known shipped_modules[] = {
    {"device", "cpu", NULL, NULL, PST_MODULE_USUAL},
    {"device", "cuda", "NVIDIA GPUs", NULL, PST_MODULE_ALONE},
    {"transport", "threads", NULL, NULL,
     PST_MODULE_USUAL | PST_MODULE_SHARES | PST_MODULE_MEETS_IN_WAITS},
    {"transport", "mpi", "devices on several machines; it needs libopenmpi-dev and openmpi-bin",
     NULL, PST_MODULE_PROCESSES},
    {"transport", "nccl", "links between NVIDIA GPUs; it needs CUDA and libnccl-dev", "cuda",
     PST_MODULE_PROCESSES | PST_MODULE_IN_STREAMS},
    {NULL, NULL, NULL, NULL, 0},
};

static void print_usage(FILE *out)
{
    fputs("penstock COMMAND [arguments] [options]\n\n"
          "Trains neural networks as pipelines over several devices.\n\nCommands\n",
          out);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("\n\"penstock COMMAND --help\" or \"penstock help COMMAND\" explains a command; "
          "\"penstock -V\" prints the version.\n",
          out);
}

/* "no WHAT "WORD"; did you mean ...?", or where all are listed. */
static _Noreturn void fail_word(const char *who, const char *what, const char *word,
                                const char *const *names, uint32_t n)
{
    char hint[96];
    struct pst_error err;

    pst_fail(&err, PST_ERR_CONFIG, "usage", "%s%sno %s \"%s\"%s", who, who[0] == '\0' ? "" : ": ",
             what, word, pst_nearest_hint(hint, word, names, n));
    if (hint[0] == '\0') {
        pst_error_hint(&err, "\"penstock %s%s--help\" lists them", who, who[0] == '\0' ? "" : " ");
    }
    fail(&err);
}

static _Noreturn void fail_command(const char *word)
{
    const char *names[N_COMMANDS];

    for (uint32_t i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i]->name;
    }
    fail_word("", "command", word, names, N_COMMANDS);
}

static const struct pst_command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    fail_command(name);
}

void (*pst_cli_undo)(void);

static _Atomic bool leaves; /* the program ends by itself */

void pst_cli_leaves(void)
{
    leaves = true;
}

/* Undoes what is half done, and tells the other processes: like any failure, without freeing
   anything. `tells` may be NULL. */
static _Noreturn void end_at_once(struct pst_error *err, struct pst_team *tells)
{
    bool prints = true;
    int code;

    pst_file_abandon_writes();
    pst_cache_abandon();
    if (pst_cli_undo != NULL) {
        pst_cli_undo();
    }
    if (tells != NULL) {
        pst_team_settle(tells, err->status, err, &prints);
    }
    code = prints ? pst_print_error(err, wants_json) : pst_error_exit_code(err);
    pst_cli_leaves();
    if (tells != NULL) {
        pst_team_leave(tells, code);
    }
    _exit(code);
}

static void end_without_memory(void)
{
    struct pst_error err;

    pst_fail_nomem(&err);
    end_at_once(&err, pst_team_joined());
}

/* A plugin or a library called exit(). libgomp does with 1 where it gets no memory or no thread;
   errno still says so. A fork of the program may end as it likes. */
static void heed_foreign_exit(int exit_status, void *program)
{
    struct pst_blame blame;
    struct pst_error err;

    if (leaves || getpid() != (pid_t)(intptr_t)program) {
        return;
    }
    if (exit_status != 0) {
        pst_heed_no_memory();
    }
    pst_breadcrumb_read(NULL, &blame);
    if (exit_status != 0 && errno == EAGAIN) {
        pst_fail(&err, PST_ERR_UNSUPPORTED, "machine.threads", "a library ended the program: %s",
                 strerror(errno));
    } else if (blame.known && blame.running) {
        pst_fail(&err, PST_ERR_BUG, "plugin.crash", "%s ended the program with exit status %d %s",
                 blame.subject, exit_status, blame.place);
        pst_error_hint(&err, "report it to its author");
    } else {
        pst_fail(&err, PST_ERR_BUG, "internal",
                 "a library, or a kernel or thread of a plugin, ended the program with exit status "
                 "%d",
                 exit_status);
        pst_error_hint(&err, "-v names the plugins that run in this process; report it to the "
                             "authors of these, or of penstock");
    }
    end_at_once(&err, pst_team_joined());
}

/* The messages of a command that a signal ends. They are made in advance, because the signal's
   handler writes them. */
static char farewell[3][512];
static const int ending[3] = {SIGINT, SIGTERM, SIGHUP};

static void say_farewell(int number)
{
    for (uint32_t i = 0; i < 3; i++) {
        if (ending[i] == number) {
            const ssize_t told =
                write(wants_json ? STDOUT_FILENO : STDERR_FILENO, farewell[i], strlen(farewell[i]));

            (void)told;
        }
    }
    pst_cache_abandon_at_once();
}

static void heed_signals(const struct pst_command *command)
{
    const char *rank = pst_launched_as_several() ? pst_launched_rank() : NULL;
    const bool prints = rank == NULL || strtoul(rank, NULL, 10) == 0;
    struct pst_error err;

    for (uint32_t i = 0; i < 3 && prints; i++) {
        struct pst_json json;

        pst_stop_fail_by(ending[i], &err);
        if (wants_json) {
            pst_json_init(&json);
            pst_json_object(&json, NULL);
            pst_error_add_json(&json, &err);
            pst_json_end(&json, '}');
            snprintf(farewell[i], sizeof farewell[i], "%s\n", json.text);
            pst_json_finish(&json);
        } else {
            snprintf(farewell[i], sizeof farewell[i], "penstock: %.400s\n", err.message);
        }
    }
    pst_stop_install(say_farewell);
    pst_stop_grace(command->handles_signals ? PST_STOP_USUAL_MS : 0);
}

static int run(const struct pst_command *command, int argc, char **argv)
{
    void *request = pst_alloc(1, command->request_size + 1);
    struct pst_cli cli;
    pst_status status = pst_options_parse(command, argc, argv, request, &cli, &cli.err);

    wants_json = status == PST_OK ? cli.json : wants_json;
    pst_print_error_quote(cli.sets, cli.n_sets);
    pst_cli_must(&cli, status);
    pst_table_set_room(cli.wide ? 0 : pst_terminal_columns());
    if (!cli.help) {
        pst_cli_must(&cli, pst_options_arguments(command, &cli, command->words[0],
                                                 command->words[1], &cli.err));
        pst_json_object(&cli.answer, NULL);
        heed_signals(command);
        pst_doing("running penstock", command->name);
        command->run(&cli, request);
        pst_json_end(&cli.answer, '}');
    }
    if (cli.answer.length > sizeof "{}" - 1 || cli.answer.out != NULL) {
        pst_json_newline(&cli.answer);
        fwrite(cli.answer.text, 1, cli.answer.length, stdout);
    }
    pst_json_finish(&cli.answer);
    free(request);
    return cli.told ? cli.code : pst_cli_end(cli.code);
}

/* Ids of a kind of plugins, for completion; opens none. */
static void print_ids(const char *kind)
{
    struct pst_plugin_list *plugins = NULL;
    struct pst_error err;

    if (pst_plugin_list_create(NULL, &plugins, &err) != PST_OK) {
        fail(&err);
    }
    for (uint32_t i = 0; i < plugins->n_files; i++) {
        const struct pst_plugin_file *file = &plugins->files[i];

        if (strcmp(kind, "all") == 0 || strcmp(kind, file->kind) == 0) {
            pst_text_printf(stdout, "%s\n", file->id);
        }
    }
    pst_plugin_list_destroy(plugins);
}

static void print_reference(const struct pst_manual *manual, const char *word)
{
    struct pst_error err;
    uint32_t n = 0, page = 0;

    while (pst_reference_pages[n] != NULL) {
        page = strcmp(word, pst_reference_pages[n]) == 0 ? n : page;
        n++;
    }
    if (strcmp(word, pst_reference_pages[page]) != 0) {
        fail_word("help", "page of the reference", word, pst_reference_pages, n);
    }
    if (pst_reference_page(manual, page, stdout, &err) != PST_OK) {
        fail(&err);
    }
}

/* Prints parts of the tables of commands and options, for packages, documents and shells. */
static int help_for_others(int argc, char **argv)
{
    static const char *const shells[] = {"bash", "zsh", "fish"};
    const struct pst_manual manual = {commands, N_COMMANDS};
    const char *word = argc > 3 ? argv[3] : "";
    struct pst_error err;

    if (strcmp(argv[2], "--ids") == 0) {
        print_ids(word);
    } else if (strcmp(argv[2], "--sets") == 0) {
        if (pst_manual_complete_set(word, stdout, &err) != PST_OK) {
            fail(&err);
        }
    } else if (strcmp(argv[2], "--man") == 0) {
        pst_manual_page(&manual, word[0] == '\0' ? NULL : find_command(word), stdout);
    } else if (strcmp(argv[2], "--markdown") == 0) {
        print_reference(&manual, word);
    } else if (strcmp(argv[2], "--completion") == 0) {
        if (!pst_manual_completion(&manual, word, stdout)) {
            fail_word("help", "shell", word, shells, 3);
        }
    } else if (strcmp(argv[2], "--install") != 0 || word[0] == '\0') {
        fail_command(argv[2]);
    } else if (pst_manual_install(&manual, word, &err) != PST_OK) {
        fail(&err);
    }
    return pst_cli_end(0);
}

/* `penstock help [COMMAND]`, which is `penstock COMMAND --help`. */
static int help(int argc, char **argv)
{
    char *asked[] = {NULL, (char *)"--help", NULL};

    if (argc < 3 || strcmp(argv[2], "--json") == 0) { /* help stays text */
        print_usage(stdout);
        return pst_cli_end(0);
    }
    if (strncmp(argv[2], "--", 2) == 0) {
        return help_for_others(argc, argv);
    }
    asked[0] = argv[2];
    return run(find_command(argv[2]), 2, asked);
}

/* The questions that a process that was started for a plugin answers. */
static const struct pst_apart_kind *const questions[] = {&pst_plan_kind,     &pst_describe_kind,
                                                         &pst_schedule_kind, &pst_partition_kind,
                                                         &pst_memopt_kind,   &pst_model_kind};

int pst_cli_run(int argc, char **argv)
{
    wants_json = pst_options_want_json(argc, argv);
    pst_modules_set(shipped_modules);
    pst_on_out_of_memory(end_without_memory);
    pst_json_share_memory();
    pst_new_share_memory();
    if (argc > 1 && strcmp(argv[1], PST_WORKER_FLAG) == 0 &&
        !pst_isolate_child(argc, argv, pst_tune_plan, questions,
                           sizeof questions / sizeof *questions)) {
        wants_json = false;
        fail_command(argv[1]); /* nobody's business but the planner's */
    }
    if (argc > 1 && strcmp(argv[1], PST_CONFORMANCE_CHILD) == 0) {
        return pst_conformance_child(argc, argv);
    }
    pst_worker_offer();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
    signal(SIGCHLD, SIG_DFL);
    on_exit(heed_foreign_exit, (void *)(intptr_t)getpid());
    if (argc < 2 && !wants_json) {
        print_usage(stderr);
        return 2;
    }
    if (argc < 2) {
        fail_command("");
    } else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
               strcmp(argv[1], "help") == 0) {
        return help(argc, argv);
    } else if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf(wants_json ? "{\"version\":\"%s\"}\n" : "penstock %s\n", PENSTOCK_VERSION);
        return pst_cli_end(0);
    }
    return run(find_command(argv[1]), argc - 1, argv + 1);
}

void pst_cli_must(struct pst_cli *cli, pst_status status)
{
    if (status == PST_ERR_CANCELLED && pst_stop_requested()) {
        pst_stop_fail(&cli->err);
    }
    if (status != PST_OK) {
        pst_config_name(cli->config, &cli->err);
        fail(&cli->err);
    }
}

void pst_cli_must_be_alone(struct pst_cli *cli, const char *does)
{
    if (!pst_launched_as_several()) {
        return;
    }
    pst_fail(&cli->err, PST_ERR_CONFIG, "usage",
             "penstock %s %s in one process, but %s were started", cli->command->name, does,
             pst_launched_size());
    pst_error_hint(&cli->err, "start it without a launcher, or as one process: mpirun -n 1, "
                              "srun -n 1");
    if (!pst_team_prints_alike()) {
        pst_cli_leave(pst_error_exit_code(&cli->err));
    }
    fail(&cli->err);
}

void pst_cli_usage(struct pst_cli *cli, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pst_fail(&cli->err, PST_ERR_CONFIG, "usage", "%s: %s", cli->command->name, text);
    fail(&cli->err);
}

uint32_t pst_cli_choose(struct pst_cli *cli, const char *what, const char *word,
                        const char *const *names)
{
    uint32_t n = 0;

    for (; names[n] != NULL; n++) {
        if (strcmp(word, names[n]) == 0) {
            return n;
        }
    }
    fail_word(cli->command->name, what, word, names, n);
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

int pst_cli_end(int code)
{
    struct pst_error err;
    int failed;

    if (pst_cli_flush(&err) == PST_OK) {
        return code;
    }
    failed = pst_print_error(&err, false);
    return code > 128 ? code : failed; /* a terminal that hung up takes no answer */
}

void pst_cli_leave(int code)
{
    pst_cli_leaves();
    if (pst_exec_is_stuck()) {
        fflush(NULL);
        pst_cache_abandon();
        _exit(code);
    }
    exit(code);
}
