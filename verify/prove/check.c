/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of the rules. Form comes first, because everything after it trusts indices; liveness
 * runs on any well-formed lists; buffers are looked at once the lists themselves are legal.
 */
#include "prove/internal.h"

#include <string.h>

static void check_in_order(struct pst_check *check)
{
    pst_check_passes(check);
    if (check->passes != NULL) {
        pst_check_parts(check);
        pst_check_waits(check);
        pst_check_copies(check);
        pst_check_transfers(check);
        pst_check_reductions(check);
    }
}

/* PASS, COMM, WVER and LIVE rules on the lists of check->plan, then those of buffers. */
static bool check_lists(struct pst_check *check, bool legal)
{
    if (legal) {
        legal = pst_check_is_clean(check, check_in_order);
    }
    legal &= pst_check_is_clean(check, pst_check_live);
    if (legal && check->programs != NULL) {
        legal = pst_check_is_clean(check, pst_check_memory);
    }
    return legal;
}

/* The lists of n batches in a row. */
static bool check_unrolled(struct pst_check *check, uint32_t n_batches, bool legal)
{
    const struct pst_plan *plan = check->plan;
    struct pst_error err = {.status = PST_OK};
    struct pst_plan *unrolled = NULL;
    pst_status status = pst_plan_unroll(plan, n_batches, 0, &unrolled, &err);
    if (status != PST_OK) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE, "%s", err.message);
        return false;
    }
    check->source = plan;
    check->plan = unrolled;
    check->n_batches = n_batches;
    check->passes = NULL;
    pst_check_lists(check);
    legal = check_lists(check, legal);
    check->plan = plan;
    check->source = NULL;
    check->n_batches = 1;
    pst_plan_destroy(unrolled);
    pst_check_lists(check);
    return legal;
}

static void check_asynchronous(struct pst_check *check, bool legal)
{
    uint32_t versions = 2;
    legal &= pst_check_is_clean(check, pst_check_drains);
    /* Long enough for every version to be read and overwritten; then the shortest run, in which no
       body stands between fill and drain. */
    legal &= check_unrolled(check, versions + 2, legal);
    if (legal) {
        check_unrolled(check, 1, legal);
    }
}

static void run_rules(struct pst_check *check)
{
    if (!pst_check_is_clean(check, pst_check_form)) {
        return;
    }
    bool legal = check->graph->parts <= 1 || pst_check_is_clean(check, pst_check_layouts);
    legal &= pst_check_is_clean(check, pst_check_partition);
    pst_check_find_meetings(check);
    if (legal) {
        pst_check_cuts(check);
    }
    if (check->plan->asynchronous) {
        check_asynchronous(check, legal);
    } else {
        check_lists(check, legal);
    }
    if (legal && check->plan->stated != NULL && !check->limits->forward_only) {
        pst_check_stated(check);
    }
}

static void write_details(const struct pst_check_report *report, struct pst_error *err)
{
    uint32_t kept = report->n_violations < PST_CHECK_MAX ? report->n_violations : PST_CHECK_MAX;
    for (uint32_t i = 0; i < kept; i++) {
        const struct pst_violation *violation = &report->violations[i];
        if (violation->device == PST_NONE) {
            pst_error_detail(err, "%s: %s\n", violation->rule, violation->text);
        } else if (violation->instr == PST_NONE) {
            pst_error_detail(err, "%s: device %u: %s\n", violation->rule, violation->device,
                             violation->text);
        } else {
            pst_error_detail(err, "%s: device %u, instruction %u: %s\n", violation->rule,
                             violation->device, violation->instr, violation->text);
        }
    }
}

pst_status pst_plan_check(const struct pst_plan *plan, const struct pst_graph *graph,
                          const struct pst_check_limits *limits,
                          const struct pst_program *const *programs,
                          struct pst_check_report *ret_report, struct pst_error *err)
{
    struct pst_check check = {.plan = plan,
                              .graph = graph,
                              .limits = limits,
                              .report = ret_report,
                              .programs = programs,
                              .n_batches = 1};
    const struct pst_violation *first = &ret_report->violations[0];
    uint32_t n;

    memset(ret_report, 0, sizeof *ret_report);
    run_rules(&check);
    pst_arena_finish(&check.arena);
    n = ret_report->n_violations;
    if (n == 0) {
        return PST_OK;
    }
    if (first->device == PST_NONE) {
        pst_fail(err, PST_ERR_BUG, "plan.illegal", "the plan is illegal: %s: %s", first->rule,
                 first->text);
    } else {
        pst_fail(err, PST_ERR_BUG, "plan.illegal", "the plan is illegal: %s: device %u: %s",
                 first->rule, first->device, first->text);
    }
    if (n > 1) {
        pst_error_hint(err, "%u violations in all, the first %u below", n,
                       n < PST_CHECK_MAX ? n : (uint32_t)PST_CHECK_MAX);
    }
    write_details(ret_report, err);
    return PST_ERR_BUG;
}
