/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of the rules. Form comes first, because everything after it trusts indices; liveness
 * runs on any well-formed lists; buffers are looked at once the lists themselves are legal.
 */
#include "plan/check/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void pst_check_add(struct pst_check *check, const char *rule, uint32_t device, uint32_t instr,
                   const char *format, ...)
{
    struct pst_check_report *report = check->report;
    if (report->n_violations < PST_CHECK_MAX) {
        struct pst_violation *violation = &report->violations[report->n_violations];
        snprintf(violation->rule, sizeof violation->rule, "%s", rule);
        violation->device = device;
        violation->instr = instr;
        va_list args;
        va_start(args, format);
        vsnprintf(violation->text, sizeof violation->text, format, args);
        va_end(args);
    }
    report->n_violations++;
}

void *pst_check_array(struct pst_check *check, uint64_t count, size_t size)
{
    void *array = pst_arena_array(&check->arena, count, size);
    if (array == NULL) {
        check->status = PST_ERR_NOMEM;
    }
    return array;
}

void pst_check_enter(struct pst_check *check, uint32_t rank)
{
    for (uint32_t i = check->rank_first[rank]; i < check->rank_first[rank + 1]; i++) {
        check->place[check->rank_stages[i]] = check->rank_replicas[i];
    }
}

void pst_check_leave(struct pst_check *check, uint32_t rank)
{
    for (uint32_t i = check->rank_first[rank]; i < check->rank_first[rank + 1]; i++) {
        check->place[check->rank_stages[i]] = PST_NONE;
    }
}

char *pst_check_describe(const struct pst_instr *instr, char *text)
{
    const char *name = pst_instr_name(instr->op);
    const size_t room = 64;
    switch (instr->op) {
    case PST_I_SEND:
    case PST_I_RECV:
        snprintf(text, room, "%s %u %s %u+%u %s %u", name, instr->stage,
                 instr->payload == PST_PAYLOAD_ACT ? "act" : "grad", instr->first_sample,
                 instr->n_samples, instr->op == PST_I_SEND ? "to" : "from", instr->peer);
        break;
    case PST_I_NORM:
        snprintf(text, room, "%s", name);
        break;
    case PST_I_REDUCE:
    case PST_I_TIE:
    case PST_I_STEP:
        snprintf(text, room, "%s %u", name, instr->stage);
        break;
    default:
        snprintf(text, room, "%s %u %u", name, instr->stage, instr->microbatch);
        break;
    }
    return text;
}

static void run_rules(struct pst_check *check, const struct pst_program *const *programs)
{
    if (!pst_check_form(check) || check->status != PST_OK) {
        return;
    }
    bool legal = pst_check_partition(check);
    if (legal && check->status == PST_OK) {
        legal = pst_check_passes(check);
        if (check->status == PST_OK && check->passes != NULL) {
            pst_check_waits(check);
        }
        if (check->status == PST_OK && check->passes != NULL) {
            legal &= pst_check_transfers(check);
            legal &= pst_check_reductions(check);
        }
    }
    if (check->status == PST_OK) {
        legal &= pst_check_live(check);
    }
    if (check->status == PST_OK && legal && programs != NULL) {
        pst_check_memory(check, programs);
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
    struct pst_check check = {.plan = plan, .graph = graph, .limits = limits, .report = ret_report};
    memset(ret_report, 0, sizeof *ret_report);
    run_rules(&check, programs);
    pst_arena_finish(&check.arena);
    if (check.status != PST_OK) {
        return pst_fail_nomem(err);
    }
    if (ret_report->n_violations == 0) {
        return PST_OK;
    }
    const struct pst_violation *first = &ret_report->violations[0];
    if (first->device == PST_NONE) {
        pst_fail(err, PST_ERR_BUG, "plan.illegal", "the plan is illegal: %s: %s", first->rule,
                 first->text);
    } else {
        pst_fail(err, PST_ERR_BUG, "plan.illegal", "the plan is illegal: %s: device %u: %s",
                 first->rule, first->device, first->text);
    }
    if (ret_report->n_violations > 1) {
        pst_error_hint(err, "%u violations in all, the first %u below", ret_report->n_violations,
                       ret_report->n_violations < PST_CHECK_MAX ? ret_report->n_violations
                                                                : (uint32_t)PST_CHECK_MAX);
    }
    write_details(ret_report, err);
    return PST_ERR_BUG;
}
