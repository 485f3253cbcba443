/* SPDX-License-Identifier: Apache-2.0
 *
 * Choosing a checkpoint: rank 0 proposes, all open what it proposes and verify what they will read,
 * and what one of them finds damaged none uses.
 */
#include "checkpoint/resume.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/util.h"

enum { PATH = 4096 };

/* The checkpoint that rank 0 proposes. */
struct proposal {
    char path[PATH]; /* "": there is nothing more to try */
    char sha256[PST_SHA256_TEXT];
    bool falls_back; /* to an older one, where this is damaged */
};

/* The checkpoints that may be used; the best is last. */
struct candidates {
    char **paths;
    uint32_t n;
    bool falls_back;
};

/* --- candidates ------------------------------------------------------------------------------- */

static pst_status add_all(const char *folder, struct candidates *candidates, struct pst_error *err)
{
    uint64_t *steps = NULL;
    pst_status status = pst_checkpoint_list(folder, &steps, &candidates->n, err);

    candidates->falls_back = true;
    candidates->paths = pst_alloc(candidates->n + 1, sizeof(char *));
    for (uint32_t i = 0; i < candidates->n; i++) {
        candidates->paths[i] = pst_checkpoint_path(folder, steps[i]);
    }
    free(steps);
    return status;
}

static void add_one(char *path, struct candidates *candidates)
{
    candidates->paths = pst_alloc(1, sizeof(char *));
    candidates->paths[candidates->n++] = path;
}

static pst_status find_candidates(const char *from, const char *folder,
                                  struct candidates *candidates, struct pst_error *err)
{
    const bool is_step = from[0] != '\0' && strspn(from, "0123456789") == strlen(from);
    const bool is_auto = strcmp(from, "auto") == 0;
    pst_status status;

    if ((is_step || is_auto) && folder[0] == '\0') {
        return pst_fail(err, PST_ERR_CONFIG, "checkpoint.none",
                        "--resume %s: checkpoint.folder is not set", from);
    }
    if (is_step && strlen(from) <= 12) {
        add_one(pst_checkpoint_path(folder, strtoull(from, NULL, 10)), candidates);
        return PST_OK;
    }
    if (!is_auto && pst_checkpoint_is_one(from)) {
        add_one(pst_strdup(from), candidates);
        return PST_OK;
    }
    status = add_all(is_auto ? folder : from, candidates, err);
    if (status == PST_OK && !is_auto && candidates->n == 0) {
        status =
            pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.none", from, 0, 0, "no checkpoint there");
    }
    return status;
}

/* --- trying one ------------------------------------------------------------------------------- */

/* A check of all values that the ranks of this process will hold, replicas included. */
struct verifying {
    const struct pst_checkpoint *checkpoint;
    const struct pst_graph *graph;
    struct pst_error *err;
    pst_status status;
};

static void verify_value(struct verifying *verifying, const struct pst_state_key *key)
{
    const struct pst_checkpoint_tensor *tensor;
    char name[PST_CHECKPOINT_NAME];

    pst_state_name(verifying->graph, key, name);
    tensor = pst_checkpoint_find(verifying->checkpoint, name);
    if (tensor != NULL && verifying->status == PST_OK) {
        verifying->status =
            pst_checkpoint_read(verifying->checkpoint, tensor, NULL, verifying->err);
    }
}

static void verify_rank(const struct pst_session *session, uint32_t rank,
                        struct verifying *verifying)
{
    const struct pst_program *program = session->planned.programs[rank];

    for (uint32_t i = 0; i < program->n_params; i++) {
        const uint32_t index = program->params[i].parameter;

        verify_value(verifying, &(struct pst_state_key){PST_STATE_PARAMETER, index, 0});
        for (uint32_t k = 0; k < 2; k++) {
            verify_value(verifying, &(struct pst_state_key){PST_STATE_SLOT, index, k});
        }
        for (uint32_t k = 1; k < program->params[i].n_versions; k++) {
            verify_value(verifying, &(struct pst_state_key){PST_STATE_VERSION, index, k});
        }
    }
    for (uint32_t i = 0; i < 2 * session->graph->n_ops; i++) {
        if (program->state_values[i] != PST_NONE) {
            verify_value(verifying, &(struct pst_state_key){PST_STATE_OPERATOR, i / 2, i % 2});
        }
    }
}

static pst_status try_one(const struct pst_session *session, const struct proposal *proposal,
                          struct pst_checkpoint **ret_checkpoint, struct pst_error *err)
{
    const struct pst_team *team = &session->team;
    struct verifying verifying = {.graph = session->graph, .err = err};
    pst_status status = pst_checkpoint_open(proposal->path, ret_checkpoint, err);

    if (status != PST_OK) {
        return status;
    }
    if (proposal->sha256[0] != '\0' && strcmp((*ret_checkpoint)->sha256, proposal->sha256) != 0) {
        return pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.damaged", proposal->path, 0, 0,
                           "it differs from the checkpoint that rank 0 reads there");
    }
    verifying.checkpoint = *ret_checkpoint;
    for (uint32_t r = 0; r < session->planned.plan->n_devices; r++) {
        if (team->ops == NULL || r == team->rank) {
            verify_rank(session, r, &verifying);
        }
    }
    return verifying.status;
}

/* --- together --------------------------------------------------------------------------------- */

/* How it went for all: a failure is told by the one that met it; one that is not of the checkpoint
   goes before. */
static pst_status agree_on_status(const struct pst_team *team, pst_status status,
                                  struct pst_error *err)
{
    enum { WELL, OTHER_CHECKPOINT, FAILED };
    uint32_t own = status == PST_OK                       ? WELL
                   : pst_checkpoint_is_unfit(status, err) ? OTHER_CHECKPOINT
                                                          : FAILED;
    uint32_t *all, worst = own;
    pst_status met = PST_OK;

    if (team->ops == NULL) {
        return status;
    }
    all = pst_alloc(team->n, sizeof *all);
    met = team->ops->exchange(&own, all, sizeof own, err);
    for (uint32_t r = 0; r < team->n && met == PST_OK; r++) {
        if (all[r] > worst) {
            worst = all[r];
            status =
                pst_fail(err, worst == FAILED ? PST_ERR_IO : PST_ERR_CONFIG,
                         worst == FAILED ? "input.path" : "checkpoint.damaged",
                         "rank %u (host %s) cannot read the checkpoint", r, team->ops->host(r));
        }
    }
    free(all);
    return met != PST_OK ? met : status;
}

static pst_status share_proposal(const struct pst_team *team, struct proposal *proposal,
                                 struct pst_error *err)
{
    return team->ops == NULL ? PST_OK : team->ops->broadcast(proposal, sizeof *proposal, err);
}

/* Rank 0 alone looks at manifests that may be no good. */
static void propose(const struct candidates *candidates, uint32_t left, struct proposal *proposal)
{
    struct pst_checkpoint *checkpoint = NULL;
    struct pst_error err = {0};

    memset(proposal, 0, sizeof *proposal);
    if (left == 0) {
        return;
    }
    proposal->falls_back = candidates->falls_back;
    snprintf(proposal->path, sizeof proposal->path, "%s", candidates->paths[left - 1]);
    if (pst_checkpoint_open(proposal->path, &checkpoint, &err) == PST_OK) {
        memcpy(proposal->sha256, checkpoint->sha256, sizeof proposal->sha256);
    }
    pst_checkpoint_close(checkpoint);
}

/* Keeps what is damaged, under a name that no run takes it by. */
static void set_aside(const char *path)
{
    const char *name = strrchr(path, '/') + 1 + strlen("step-");
    const int folder = (int)(name - path - (ptrdiff_t)strlen("step-"));
    char *to = pst_printf("%.*sdamaged-%s", folder, path, name);
    int failed = rename(path, to);

    for (uint32_t k = 2; failed != 0 && (errno == ENOTEMPTY || errno == EEXIST); k++) {
        free(to);
        to = pst_printf("%.*sdamaged-%s-%u", folder, path, name, k);
        failed = rename(path, to);
    }
    pst_log(PST_LOG_WARN, "checkpoint", failed == 0 ? "%s is now %s" : "%s: cannot be %s", path,
            to);
    free(to);
}

/* Proposes one after the other until all can read it, or there is none. *left: those that were not
   found damaged. */
static pst_status choose_candidate(const struct pst_session *session,
                                   const struct candidates *candidates, uint32_t *left,
                                   struct pst_checkpoint **ret_checkpoint, struct pst_error *err)
{
    const struct pst_team *team = &session->team;
    const bool first = pst_team_is_first(team);
    struct proposal *proposal = pst_alloc(1, sizeof *proposal);
    bool tried = false, again = true;
    pst_status status = PST_OK;

    while (again && status == PST_OK) {
        if (first) {
            propose(candidates, *left, proposal);
        }
        status = share_proposal(team, proposal, err);
        if (status != PST_OK || proposal->path[0] == '\0') {
            break;
        }
        tried = true;
        status = agree_on_status(team, try_one(session, proposal, ret_checkpoint, err), err);
        again = pst_checkpoint_is_unfit(status, err) && proposal->falls_back;
        if (status != PST_OK) {
            pst_checkpoint_close(*ret_checkpoint);
            *ret_checkpoint = NULL;
        }
        if (again && first) {
            pst_log(PST_LOG_WARN, "checkpoint", "%s is skipped: %s", proposal->path, err->message);
            (*left)--;
        }
        status = again ? PST_OK : status;
    }
    if (status == PST_OK && *ret_checkpoint == NULL && tried) {
        status = pst_fail(err, PST_ERR_CONFIG, "checkpoint.damaged",
                          "none of the checkpoints there can be read");
    }
    free(proposal);
    return status;
}

pst_status pst_resume_open(const struct pst_session *session,
                           const struct pst_resume_request *request,
                           struct pst_checkpoint **ret_checkpoint, struct pst_error *err)
{
    const struct pst_team *team = &session->team;
    const char *folder = session->job->training->checkpoint.folder;
    const bool first = pst_team_is_first(team);
    struct candidates candidates = {.n = 0};
    pst_status status = first ? find_candidates(request->from, folder, &candidates, err) : PST_OK;
    uint32_t left = candidates.n;

    *ret_checkpoint = NULL;
    status = agree_on_status(team, status, err);
    PST_TRY(status, choose_candidate(session, &candidates, &left, ret_checkpoint, err));
    for (uint32_t i = 0; i < candidates.n; i++) {
        if (i >= left && status == PST_OK && strcmp(request->from, "auto") == 0) {
            set_aside(candidates.paths[i]);
        }
        free(candidates.paths[i]);
    }
    free(candidates.paths);
    return status;
}
