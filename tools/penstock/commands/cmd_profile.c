/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock profile CONFIG`: what the model's operators take on this device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/util.h"
#include "commands/commands.h"
#include "commands/searching.h"
#include "measure/describe.h"
#include "models/costed/costed_file.h"
#include "reports/profile_report.h"

#define ROUNDS    20u
#define WARMUPS   5u
#define GROUP_NS  20000000000u /* of one size, at most */
#define LEAST_NS  600000000u
#define REDRAW_NS 100000000u

struct request {
    const char *file, *cluster_file, *sizes_text;
    uint32_t rounds; /* 0: not given */
    struct pst_profile_request profile;
    uint64_t drawn_ns;
    bool drawing;
};

static bool read_number(const char **text, uint32_t most, uint32_t *ret_number)
{
    unsigned long n;
    char *end;

    if (**text < '1' || **text > '9') {
        return false;
    }
    n = strtoul(*text, &end, 10);
    *text = end;
    *ret_number = (uint32_t)n;
    return n <= most;
}

/* "1,2,4": ascending, none larger than the batch. */
static void read_sizes(struct pst_cli *cli, const struct pst_job *job, struct request *request)
{
    struct pst_profile_request *profile = &request->profile;
    const char *text = request->sizes_text;
    bool good = true;

    if (text == NULL) {
        pst_profile_sizes(job, profile);
        return;
    }
    for (profile->n_sizes = 0; good && profile->n_sizes < PST_PROFILE_SIZES; text++) {
        uint32_t n = profile->n_sizes++;

        good = read_number(&text, (uint32_t)job->train.batch, &profile->sizes[n]) &&
               (n == 0 || profile->sizes[n] > profile->sizes[n - 1]) &&
               (*text == ',' || *text == '\0');
        if (*text == '\0') {
            break;
        }
    }
    if (!good || *text != '\0') {
        pst_cli_must(cli,
                     pst_fail(&cli->err, PST_ERR_CONFIG, "usage",
                              "--sizes must be up to %d ascending numbers from 1 to "
                              "train.batch = %lld, such as 1,2,4, not \"%s\"",
                              PST_PROFILE_SIZES, (long long)job->train.batch, request->sizes_text));
    }
}

static void read_request(struct pst_cli *cli, const struct pst_job *job, struct request *request)
{
    bool given = request->rounds > 0;

    request->profile.warmups = WARMUPS;
    request->profile.rounds = given ? request->rounds : ROUNDS;
    request->profile.least_ns = given ? 0 : LEAST_NS;
    request->profile.group_ns = given ? 0 : GROUP_NS;
    request->profile.reads_data = true;
    read_sizes(cli, job, request);
}

static void draw(void *context, uint64_t done, uint64_t all, uint32_t size)
{
    struct request *request = context;
    uint64_t now = pst_now_ns();
    unsigned filled = (unsigned)(all == 0 ? 0 : 30 * done / all);

    if (request->drawing && (now - request->drawn_ns >= REDRAW_NS || done == all)) {
        request->drawn_ns = now;
        fprintf(stderr, "\r[%.*s%*s] micro-batches of %u: %3u %% ", (int)filled,
                "##############################", (int)(30 - filled), "", size,
                (unsigned)(all == 0 ? 100 : 100 * done / all));
        fflush(stderr);
    }
}

static void clear(const struct request *request)
{
    if (request->drawing) {
        fprintf(stderr, "\r\033[K");
    }
}

static void write_graph(struct pst_cli *cli, const struct pst_profiled *profile, const char *file)
{
    size_t length = 0;
    char *text = pst_costed_write(profile->graph, &length);

    pst_cli_must(cli, pst_file_write(file, text, length, &cli->err));
    free(text);
}

/* The machine as a [cluster] section. */
static void write_cluster(struct pst_cli *cli, const struct pst_session *session,
                          const struct pst_profiled *profile, const char *file)
{
    struct pst_described described;
    char *text;

    pst_searching_begin(cli, "measuring links and memory");
    pst_cli_must(cli, pst_describe(session, profile, &described, &cli->err));
    pst_searching_end();
    text = pst_described_toml(&described, session, profile);
    pst_cli_must(cli, pst_file_write(file, text, strlen(text), &cli->err));
    free(text);
}

static void answer(struct pst_cli *cli, const struct pst_session *session, struct request *request)
{
    struct pst_profiled profile;
    pst_status status;

    request->profile.progress = draw;
    request->profile.context = request;
    request->profile.cancelled = pst_stop_requested;
    request->drawing = cli->verbosity >= 0 && isatty(STDERR_FILENO) == 1;
    status = pst_profile_run(session, &request->profile, &profile, &cli->err);
    clear(request);
    pst_cli_must(cli, status);
    if (request->file != NULL) {
        write_graph(cli, &profile, request->file);
    }
    if (request->cluster_file != NULL) {
        write_cluster(cli, session, &profile, request->cluster_file);
    }
    if (cli->json) {
        pst_profile_report_json(session, &profile, request->file, &cli->answer);
    } else {
        pst_profile_report_print(session, &profile, request->file, cli->color, stdout);
    }
    pst_profile_finish(&profile);
}

static void profile(struct pst_cli *cli, void *asked)
{
    struct request *request = asked;
    bool machine = request->cluster_file != NULL;
    struct pst_cli_job job;

    pst_cli_must_be_alone(cli, "measures one device");
    if (request->file != NULL) {
        pst_cli_must(cli, pst_file_write_check(request->file, &cli->err));
    }
    if (machine) {
        pst_cli_must(cli, pst_file_write_check(request->cluster_file, &cli->err));
    }
    pst_cli_job_open(cli, cli->arguments[0], &job);
    read_request(cli, &job.job, request);
    pst_cli_must(cli, machine ? pst_session_create(&job.job, NULL, &job.session, &cli->err)
                              : pst_session_create_for_planning(&job.job, &job.session, &cli->err));
    pst_cli_must(cli, pst_session_check_runs(job.session, &cli->err));
    if (machine && (job.session->device_ops->flags & PST_DEVICE_NO_DATA) != 0) {
        pst_cli_must(
            cli, pst_fail(&cli->err, PST_ERR_CONFIG, "usage",
                          "--cluster measures a machine, but run.device = \"%s\" only emulates one",
                          job.job.run.device));
    }
    answer(cli, job.session, request);
    pst_cli_job_close(&job);
}

static const struct pst_option options[] = {
    {"output", 'o', "FILE", "write the profile, a penstock-graph file", PST_AT(file), 0},
    {"cluster", 'c', "FILE", "also measure links and memory, and write a [cluster] section",
     PST_AT(cluster_file), 0},
    {"sizes", 's', "LIST", "samples per micro-batch: 1,2,4,...; powers of two up to the job's",
     PST_AT(sizes_text), 0},
    {"rounds", 'r', "N", "timed runs of each operator; 20, more or fewer as time allows",
     PST_AT(rounds), 100000},
};

const struct pst_command pst_cmd_profile = {
    .name = "profile",
    .arguments = "CONFIG",
    .summary = "Measures the operators of a model on this device",
    .text = "Runs F, B and W of every operator for several micro-batch sizes after a warm-up, and "
            "prints\nthe mean of the middle four fifths of the runs beside the time by [cluster]. "
            "-o writes the\nprofile as a penstock-graph file; [profile] file = \"...\" in a config "
            "plans with it.",
    .words = {1, 1},
    PST_CLI_OPTIONS(options, struct request),
    .handles_signals = true,
    .run = profile,
};
