/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include "session/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "base/mpi_environment.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/util.h"
#include "config/report.h"
#include "host/plugin_host.h"
#include "session/session.h"

#define SETTLE_NS UINT64_C(2000000000)
#define AROUND    32 /* characters shown before and after a difference */

static struct pst_team *joined;

struct pst_team *pst_team_joined(void)
{
    return joined;
}

/* --- joining -----------------------------------------------------------------------------------*/

struct identity {
    char version[32];
    uint64_t config, length; /* of its text, without the NUL */
};

/* The member of the text around a place: from the comma or brace before it to the one after it;
   "nothing" after the last one. */
static void excerpt(const char *text, size_t at, char *to, size_t size)
{
    size_t begin = at, end = at, length = strlen(text);

    if (at > 0 && strchr("}]", text[at - 1]) != NULL) {
        snprintf(to, size, "nothing");
        return;
    }
    while (begin > 0 && strchr(",{", text[begin - 1]) == NULL && at - begin < AROUND) {
        begin--;
    }
    while (end < length && strchr(",}", text[end]) == NULL && end - at < AROUND) {
        end++;
    }
    snprintf(to, size, "%.*s", (int)(end - begin), text + begin);
}

/* Texts of all processes, of the same room each: says where that of `rank` is another. */
static pst_status fail_config(const struct pst_team *team, uint32_t rank, const char *texts,
                              size_t room, struct pst_error *err)
{
    const char *first = texts, *other = texts + rank * room;
    char here[2 * AROUND + 8], there[2 * AROUND + 8];
    size_t at = 0;

    while (first[at] != '\0' && first[at] == other[at]) {
        at++;
    }
    /* one has a member more */
    at += first[at] != '\0' && strchr(",}]", first[at]) != NULL && other[at] != '\0' &&
          strchr(",}]", other[at]) != NULL;
    excerpt(first, at, here, sizeof here);
    excerpt(other, at, there, sizeof there);
    return pst_fail(err, PST_ERR_CONFIG, "config.value",
                    "rank %u (host %s) has another config than rank 0 (host %s): %s, not %s", rank,
                    team->ops->host(rank), team->ops->host(0), there, here);
}

static pst_status compare_configs(const struct pst_team *team, const char *text,
                                  const struct identity *all, struct pst_error *err)
{
    size_t room = 0;
    char *mine, *texts;
    pst_status status = PST_OK;
    uint32_t other = 0;

    for (uint32_t r = 0; r < team->n; r++) {
        room = all[r].length + 1 > room ? all[r].length + 1 : room;
        other = other == 0 && all[r].config != all[0].config ? r : other;
    }
    if (other == 0) {
        return PST_OK;
    }
    mine = pst_alloc(room, 1);
    texts = pst_alloc(room, team->n);
    memcpy(mine, text, strlen(text));
    status = team->ops->exchange(mine, texts, room, err);
    PST_TRY(status, fail_config(team, other, texts, room, err));
    free(mine);
    free(texts);
    return status;
}

/* Version and config. */
static pst_status compare(const struct pst_team *team, const struct pst_job *job,
                          struct pst_error *err)
{
    struct identity own = {.version = PENSTOCK_VERSION};
    struct identity *all = pst_alloc(team->n, sizeof *all);
    char *text = pst_config_to_json(job->config);
    pst_status status;

    own.length = strlen(text);
    own.config = XXH3_64bits(text, own.length);
    status = team->ops->exchange(&own, all, sizeof own, err);
    for (uint32_t r = 1; r < team->n && status == PST_OK; r++) {
        if (strncmp(all[r].version, all[0].version, sizeof all[r].version) != 0) {
            status =
                pst_fail(err, PST_ERR_CONFIG, "config.value",
                         "rank %u (host %s) is penstock %.32s, rank 0 (host %s) %.32s", r,
                         team->ops->host(r), all[r].version, team->ops->host(0), all[0].version);
        }
    }
    PST_TRY(status, compare_configs(team, text, all, err));
    free(text);
    free(all);
    return status;
}

static void hint_launch(const struct pst_job *job, uint64_t n, struct pst_error *err)
{
    const bool usual = pst_module_has("device", job->run.device, PST_MODULE_USUAL);

    pst_error_hint(err, "mpirun -n %llu penstock train %s%s%s --set run.transport=%s",
                   (unsigned long long)n, job->config->path,
                   usual ? "" : " --set run.device=", usual ? "" : job->run.device,
                   job->run.transport);
}

static uint64_t devices_of(const struct pst_job *job)
{
    struct pst_config_node *node =
        job->cluster == NULL ? NULL : pst_config_get(job->cluster, "devices");

    return node != NULL && node->kind == PST_CONFIG_INT && node->value.integer > 0
               ? (uint64_t)node->value.integer
               : 1;
}

static pst_status check_count(const struct pst_team *team, const struct pst_job *job, uint64_t n,
                              struct pst_error *err)
{
    if (team->ops == NULL || team->n == n) {
        return PST_OK;
    }
    pst_fail(err, PST_ERR_CONFIG, "config.value",
             "run.transport = \"%s\": %u process%s for %llu device%s, there must be one for each",
             job->run.transport, team->n, team->n == 1 ? "" : "es", (unsigned long long)n,
             n == 1 ? "" : "s");
    hint_launch(job, n, err);
    return pst_config_place(job->config, "run", "transport", PST_ERR_CONFIG, err);
}

/* Several processes of a launcher and a transport of one: each would train the whole model, and
   all would write the same files. */
static pst_status fail_alone(struct pst_team *team, const struct pst_job *job,
                             struct pst_error *err)
{
    team->fails_alike = true;
    pst_fail(err, PST_ERR_CONFIG, "config.value",
             "run.transport = \"%s\" runs all devices in one process, but %s were started",
             job->run.transport, pst_launched_size());
    pst_error_hint(err,
                   "omit run.transport to run on all of them over \"%s\"; or start one process, "
                   "without a launcher",
                   pst_module_between(job->run.device));
    return pst_config_place(job->config, "run", "transport", PST_ERR_CONFIG, err);
}

/* Several processes of a launcher are one run where the config names no transport. */
static pst_status choose_transport(struct pst_team *team, struct pst_job *job,
                                   const struct pst_transport_ops **ret_ops, struct pst_error *err)
{
    struct pst_config_node *run = pst_config_get(job->config->root, "run");
    const bool chooses =
        pst_launched_as_several() && (run == NULL || pst_config_get(run, "transport") == NULL);
    pst_status status;

    job->run.transport = chooses ? pst_module_between(job->run.device) : job->run.transport;
    status = pst_session_load_transport(job, ret_ops, err);
    if (chooses && status == PST_ERR_UNSUPPORTED) {
        job->run.transport = pst_module_between("");
        status = pst_session_load_transport(job, ret_ops, err);
    }
    if (chooses && status != PST_OK) {
        team->fails_alike = true;
        pst_error_prefix(err, "%s processes were started", pst_launched_size());
    }
    return status;
}

bool pst_team_prints_alike(void)
{
    const struct timespec moment = {1, 0};
    const char *rank = pst_launched_as_several() ? pst_launched_rank() : NULL;

    if (rank == NULL || strtoul(rank, NULL, 10) == 0) {
        return true;
    }
    nanosleep(&moment, NULL); /* a launcher ends the others when one process fails */
    return false;
}

/* How the run ended for a process. There is room for all of them from joining on, so that a run
   that ends for lack of memory ends as any other. */
struct verdict {
    pst_status status;
    struct pst_error error;
};

pst_status pst_team_join(struct pst_job *job, const char *plan_file, struct pst_team *ret_team,
                         struct pst_error *err)
{
    const struct pst_transport_ops *transport = NULL;
    struct pst_team *team = ret_team;
    pst_status status;

    *team = (struct pst_team){.n = 1};
    status = choose_transport(team, job, &transport, err);
    if (status != PST_OK || transport->processes == NULL) {
        return status == PST_OK && pst_launched_as_several() ? fail_alone(team, job, err) : status;
    }
    joined = team;
    team->left = transport->processes;
    status = team->left->join(job->run.transport, job->run.stall_limit, sizeof(struct verdict),
                              &team->rank, &team->n, err);
    team->ops = team->n > 0 ? team->left : NULL;
    if (status != PST_OK) {
        if (status == PST_ERR_CONFIG) {
            pst_config_place(job->config, "run", "transport", status, err);
            hint_launch(job, devices_of(job), err);
        }
        return status;
    }
    status = compare(team, job, err);
    if (status == PST_OK && plan_file == NULL && job->run.plan[0] == '\0') {
        status = check_count(team, job, devices_of(job), err);
    }
    return status;
}

pst_status pst_team_check_device(const struct pst_team *team, const struct pst_session *session,
                                 struct pst_error *err)
{
    const struct pst_job_run *run = &session->job->run;

    if (team->ops == NULL || !pst_session_has_no_data(session)) {
        return PST_OK;
    }
    pst_fail(err, PST_ERR_CONFIG, "config.value",
             "run.device = \"%s\" rehearses a run in one process, whatever the number of devices: "
             "start one process, without a launcher, and omit run.transport",
             run->device);
    return pst_config_place(session->job->config, "run", "device", PST_ERR_CONFIG, err);
}

/* --- the plan ----------------------------------------------------------------------------------*/

/* Rank 0's text to all; NULL comes in elsewhere, and what came out is to be freed. */
static pst_status share_text(const struct pst_team *team, char **text, struct pst_error *err)
{
    uint64_t length = *text != NULL ? strlen(*text) : 0;
    pst_status status = team->ops->broadcast(&length, sizeof length, err);

    if (status == PST_OK && *text == NULL) {
        *text = pst_alloc(length + 1, 1);
    }
    return status == PST_OK ? team->ops->broadcast(*text, length, err) : status;
}

pst_status pst_team_plan(const struct pst_team *team, struct pst_session *session,
                         const char *plan_file, bool (*cancelled)(void), struct pst_error *err)
{
    bool first = pst_team_is_first(team);
    pst_status status = first ? pst_session_plan(session, plan_file, cancelled, err) : PST_OK;
    char *text = NULL;

    if (status != PST_OK || team->ops == NULL) {
        return status;
    }
    if (first) {
        status = check_count(team, session->job, session->planned.plan->n_devices, err);
        text = status == PST_OK ? pst_plan_to_json(session->planned.plan, session->graph) : NULL;
    }
    PST_TRY(status, share_text(team, &text, err));
    if (status == PST_OK && !first) {
        status = pst_session_adopt(session, text, err);
    }
    free(text);
    return status;
}

pst_status pst_team_compare(const struct pst_team *team, uint64_t digest, const char *what,
                            struct pst_error *err)
{
    uint64_t *all;
    pst_status status;

    if (team->ops == NULL) {
        return PST_OK;
    }
    all = pst_alloc(team->n, sizeof *all);
    status = team->ops->exchange(&digest, all, sizeof digest, err);
    for (uint32_t r = 1; r < team->n && status == PST_OK; r++) {
        if (all[r] != all[0]) {
            status = pst_fail(err, PST_ERR_CONFIG, "config.value",
                              "rank %u (host %s) has other %s than rank 0 (host %s)", r,
                              team->ops->host(r), what, team->ops->host(0));
        }
    }
    free(all);
    return status;
}

/* --- the end -----------------------------------------------------------------------------------*/

/* Only the echo of a failure elsewhere? */
static bool is_echo(const struct verdict *verdict)
{
    return strcmp(verdict->error.kind, "run.aborted") == 0;
}

/* The lowest rank with a failure of its own, or else with any; team->n: nobody failed. */
static uint32_t find_cause(const struct pst_team *team, const struct verdict *all,
                           const bool *present)
{
    uint32_t cause = team->n;

    for (uint32_t r = 0; r < team->n; r++) {
        bool failed = present[r] && all[r].status != PST_OK;

        if (failed && (cause == team->n || (is_echo(&all[cause]) && !is_echo(&all[r])))) {
            cause = r;
        }
    }
    return cause;
}

/* Returns the lowest rank that has not reached the end; team->n if all have. */
static uint32_t first_missing(const struct pst_team *team, const bool *present)
{
    uint32_t r = 0;

    while (r < team->n && present[r]) {
        r++;
    }
    return r;
}

static pst_status adopt_cause(const struct pst_team *team, const struct verdict *all,
                              const bool *present, pst_status status, struct pst_error *err)
{
    const uint32_t cause = find_cause(team, all, present), missing = first_missing(team, present);

    if (cause < team->n) {
        status = all[cause].status;
        *err = all[cause].error;
        if (cause != team->rank && strncmp(err->kind, "run.", 4) != 0) {
            pst_error_prefix(err, "rank %u (host %s)", cause, team->ops->host(cause));
        }
    } else if (missing < team->n) {
        status = pst_fail(err, PST_ERR_CANCELLED, "run.stalled",
                          "rank %u (host %s) did not report at the end of the run", missing,
                          team->ops->host(missing));
    }
    return status;
}

pst_status pst_team_settle(struct pst_team *team, pst_status status, struct pst_error *err,
                           bool *ret_prints)
{
    static struct verdict own;
    const struct verdict *all;
    const bool *present;
    uint32_t lowest = 0;

    *ret_prints = true;
    if (team->ops == NULL) {
        *ret_prints = pst_team_prints_alike() || !team->fails_alike; /* or after the others */
        return status;
    }
    pst_end_alone();
    pst_stop_grace(PST_STOP_ORDERLY); /* a launcher ends the others, too: one message is enough */
    if (status != PST_OK) {
        team->ops->abort(err);
    }
    own.status = status;
    own.error = *err;
    all = team->ops->settle(&own, sizeof own, SETTLE_NS, &present);
    while (!present[lowest]) {
        lowest++;
    }
    *ret_prints = lowest == team->rank;
    status = adopt_cause(team, all, present, status, err);
    if (first_missing(team, present) < team->n && !*ret_prints) {
        struct timespec moment = {1, 0};

        nanosleep(&moment, NULL); /* who leaves first ends all, and somebody has to tell why */
    }
    return status;
}

void pst_team_leave(struct pst_team *team, int exit_code)
{
    joined = NULL;
    if (team->left != NULL) {
        team->left->leave(exit_code, true);
    }
    *team = (struct pst_team){.n = 1};
}
