/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "commands/commands.h"
#include "commands/print_error.h"
#include "plan/plan.h"
#include "host/child.h"
#include "train/isolate.h"
#include "train/team.h"

const struct pst_command pst_commands[] = {
    {"train", "CONFIG", "Plans if need be, then trains",
     "Progress goes to standard error, the result to standard output. A first SIGINT or a SIGTERM\n"
     "ends the run after the step in work.",
     pst_cmd_train},
    {"plan", "CONFIG", "Searches a plan and says what it costs",
     "Prints stages, memory and the predicted time of a step; -o writes the plan to a file.",
     pst_cmd_plan},
    {"simulate", "CONFIG|PLAN", "Times a plan without running it",
     "Runs the plan's instruction lists against the cost model of [cluster]: step time, who "
     "waits,\n"
     "memory over time. A config is planned first.",
     pst_cmd_simulate},
    {"compare", "CONFIG...", "Puts combinations of strategies side by side",
     "Every partitioner, scheduler, memory optimizer, number of devices and size of micro-batches\n"
     "that [compare] lists, each with each: planned, simulated, with --run also run. The fastest\n"
     "comes first; what does not fit or go together is listed with its reason. Ctrl-C keeps what "
     "is\ndone. Exit code 1 if nothing can be compared.",
     pst_cmd_compare},
    {"tune", "CONFIG...", "Searches the fastest plan, or the largest batch that fits",
     "Over the combinations that [compare] lists. --objective throughput: all of them at every "
     "size\n"
     "of micro-batches, simulated. --objective max-batch: how many samples a micro-batch can have "
     "in\nthe devices' memory, by doubling and bisection, with as many micro-batches as the config "
     "has.\n-o writes the best plan.",
     pst_cmd_tune},
    {"profile", "CONFIG", "Measures the operators of a model on this device",
     "Runs F, B and W of every operator for several sizes of micro-batch, warm-up first, and "
     "prints\n"
     "medians beside what [cluster] describes. With -o the profile is written as a penstock-graph\n"
     "file; [profile] file = \"...\" in a config plans with it.",
     pst_cmd_profile},
    {"schedule", "NAME|FILE", "Shows what a scheduler does, on its own",
     "Prints makespan, span, bubble, peaks and a timeline for equal shares of a model on so many\n"
     "devices. Costs count per pass of one micro-batch through a device's whole share: with v "
     "stages\n"
     "on a device each costs 1/v of it. A NAME is an id, a FILE a plugin with a slash in its path.",
     pst_cmd_schedule},
    {"partition", "NAME|FILE", "Shows what a partitioner does, on its own",
     "Cuts a costed graph into stages for the devices of a problem file, and says what they take "
     "by\nthe reference cost model: time per sample, memory, a simulated step. A NAME is an id, a "
     "FILE a\nplugin with a slash in its path.",
     pst_cmd_partition},
    {"memopt", "NAME|FILE", "Shows what a memory optimizer does, on its own",
     "Takes the costed graph of a problem file as one stage with so much memory, and says what "
     "becomes\nof the bytes that each operator leaves for the backward pass: kept, recomputed or "
     "offloaded, and\nwhat that costs. A NAME is an id, a FILE a plugin with a slash in its path.",
     pst_cmd_memopt},
    {"export", "FORMAT CONFIG|PLAN", "Writes a plan for other programs, or draws it",
     "FORMAT is pytorch-csv (a schedule for torch.distributed.pipelining), chrome-trace (opens in\n"
     "Perfetto; a name that ends in .gz is compressed), svg, png or pdf (a figure of a simulated\n"
     "step). A config is planned first.",
     pst_cmd_export},
    {"import", "FORMAT FILE", "Reads a schedule or a profile from elsewhere",
     "FORMAT is pytorch-csv, of either convention of letters. The schedule is proven, timed with "
     "equal\n"
     "costs and shown; -o writes it in today's letters. With --config a plan is made with it, and "
     "-o\n"
     "writes that. Or FORMAT is pipedream-profile (graph.txt): -o writes it as a penstock-graph.",
     pst_cmd_import},
    {"check", "PLAN", "Proves a plan file legal",
     "Exit code 1 and one line per violation if it is not.", pst_cmd_check},
    {"plugins", "[list | info NAME|FILE | check FILE | new KIND ID [FOLDER]]",
     "Shows which strategies there are and where they come from",
     "info tells all that a plugin says about itself, parameters included. A NAME is an id or\n"
     "KIND-ID, a FILE a path with a slash in it. check proves that a plugin keeps its contract\n"
     "(--set key=value gives it a parameter); exit code 3 if not. new makes a project to start\n"
     "from: KIND is partitioner, scheduler or memopt.",
     pst_cmd_plugins},
    {"doctor", "", "Shows what this machine has", NULL, pst_cmd_doctor},
    {NULL, NULL, NULL, NULL, NULL},
};

static const struct pst_command *find_command(const char *name)
{
    for (const struct pst_command *c = pst_commands; c->name != NULL; c++) {
        if (strcmp(c->name, name) == 0) {
            return c;
        }
    }
    return NULL;
}

static void print_usage(FILE *out)
{
    fputs("penstock COMMAND [arguments] [options]\n\n"
          "Trains neural networks as pipelines over several devices.\n\nCommands\n",
          out);
    for (const struct pst_command *c = pst_commands; c->name != NULL; c++) {
        fprintf(out, "  %-9s %s\n", c->name, c->summary);
    }
    fputs("\n\"penstock COMMAND --help\" tells more; \"penstock --version\" the version.\n", out);
}

static int fail_command(const char *word, bool json)
{
    const char *names[32], *nearest;
    struct pst_error err = {0};
    uint32_t n = 0;

    while (n < 32 && pst_commands[n].name != NULL) {
        names[n] = pst_commands[n].name;
        n++;
    }
    nearest = pst_nearest(word, names, n);
    pst_fail(&err, PST_ERR_CONFIG, "usage", "no command \"%s\"%s%s%s", word,
             nearest == NULL ? "" : "; did you mean \"", nearest == NULL ? "" : nearest,
             nearest == NULL ? "" : "\"?");
    if (nearest == NULL) {
        pst_error_hint(&err, "\"penstock --help\" lists them");
    }
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

int pst_cli_run(int argc, char **argv)
{
    const struct pst_command *command;
    bool json = pst_options_want_json(argc, argv);
    struct pst_error err = {0};

    wants_json = json;
    pst_on_out_of_memory(end_without_memory);
    if (argc > 1 && strcmp(argv[1], PST_WORKER_FLAG) == 0 && !pst_isolate_child(argc, argv)) {
        return fail_command(argv[1], false); /* nobody's business but the planner's */
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
    return command->run(command, argc - 1, argv + 1);
}

pst_status pst_cli_job_open(const char *path, const struct pst_cli *cli,
                            struct pst_cli_job *ret_job, struct pst_error *err)
{
    pst_status st;

    memset(ret_job, 0, sizeof *ret_job);
    st = pst_config_load(path, cli->sets, cli->n_sets, &ret_job->config, err);
    if (st == PST_OK) {
        st = pst_job_read(ret_job->config, &ret_job->job, err);
        ret_job->has_job = st == PST_OK;
    }
    if (st != PST_OK) {
        pst_cli_job_close(ret_job);
    }
    return st;
}

pst_status pst_cli_job_embedded(const char *file, struct pst_cli_job *ret_job,
                                struct pst_error *err)
{
    char *text = NULL;
    pst_status st;

    memset(ret_job, 0, sizeof *ret_job);
    st = pst_plan_read_config(file, &text, err);
    if (st == PST_OK) {
        st = pst_config_from_json(text, &ret_job->config, err);
    }
    if (st == PST_OK) {
        st = pst_job_read(ret_job->config, &ret_job->job, err);
        ret_job->has_job = st == PST_OK;
    }
    free(text);
    if (st != PST_OK) {
        pst_cli_job_close(ret_job);
    }
    return st;
}

bool pst_cli_is_plan(const char *path)
{
    FILE *file = fopen(path, "re");
    int c = ' ';

    while (file != NULL && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
        c = fgetc(file);
    }
    if (file != NULL) {
        fclose(file);
    }
    return c == '{';
}

void pst_cli_job_close(struct pst_cli_job *job)
{
    if (job->has_job) {
        pst_job_finish(&job->job);
    }
    pst_config_destroy(job->config);
    memset(job, 0, sizeof *job);
}

pst_status pst_cli_choose(const struct pst_command *command, const char *what, const char *word,
                          const char *const *names, uint32_t *ret_index, struct pst_error *err)
{
    const char *nearest;
    uint32_t n = 0;

    for (; names[n] != NULL; n++) {
        if (strcmp(word, names[n]) == 0) {
            *ret_index = n;
            return PST_OK;
        }
    }
    nearest = pst_nearest(word, names, n);
    pst_fail(err, PST_ERR_CONFIG, "usage", "%s: no %s \"%s\"%s%s%s", command->name, what, word,
             nearest == NULL ? "" : "; did you mean \"", nearest == NULL ? "" : nearest,
             nearest == NULL ? "" : "\"?");
    if (nearest == NULL) {
        pst_error_hint(err, "\"penstock %s --help\" lists them", command->name);
    }
    return PST_ERR_CONFIG;
}

pst_status pst_cli_print_json(char *text, struct pst_error *err)
{
    if (text == NULL) {
        return pst_fail_nomem(err);
    }
    printf("%s\n", text);
    free(text);
    return PST_OK;
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
