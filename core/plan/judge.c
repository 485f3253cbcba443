/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/judge.h"

#include <stdio.h>

static const struct pst_judge *judge_of_process;

void pst_judge_set(const struct pst_judge *judge)
{
    judge_of_process = judge;
}

static pst_status refuse(struct pst_error *err)
{
    return pst_fail(err, PST_ERR_BUG, "internal", "no proof is set: call pst_judge_set first");
}

pst_status pst_judge_check(const struct pst_plan *plan, const struct pst_graph *graph,
                           const struct pst_check_limits *limits,
                           const struct pst_program *const *programs,
                           struct pst_check_report *ret_report, struct pst_error *err)
{
    return judge_of_process == NULL
               ? refuse(err)
               : judge_of_process->check(plan, graph, limits, programs, ret_report, err);
}

pst_status pst_judge_steps(const struct pst_plan *plan, const struct pst_graph *graph,
                           const struct pst_cost_model *cost, uint32_t n_steps,
                           struct pst_sim_result *ret_result, struct pst_error *err)
{
    return judge_of_process == NULL
               ? refuse(err)
               : judge_of_process->steps(plan, graph, cost, n_steps, ret_result, err);
}

pst_status pst_judge_quick(const struct pst_plan *plan, const struct pst_graph *graph,
                           const struct pst_cost_model *cost, uint64_t *ret_period_ns,
                           struct pst_error *err)
{
    return judge_of_process == NULL
               ? refuse(err)
               : judge_of_process->quick(plan, graph, cost, ret_period_ns, err);
}

void pst_check_report_addv(struct pst_check_report *report, const char *rule, uint32_t device,
                           uint32_t instr, const char *format, va_list args)
{
    if (report->n_violations < PST_CHECK_MAX) {
        struct pst_violation *violation = &report->violations[report->n_violations];

        snprintf(violation->rule, sizeof violation->rule, "%s", rule);
        violation->device = device;
        violation->instr = instr;
        vsnprintf(violation->text, sizeof violation->text, format, args);
    }
    report->n_violations++;
}

void pst_check_report_add(struct pst_check_report *report, const char *rule, uint32_t device,
                          const char *format, ...)
{
    va_list args;

    va_start(args, format);
    pst_check_report_addv(report, rule, device, PST_NONE, format, args);
    va_end(args);
}

pst_status pst_predict_step(const struct pst_plan *plan, const struct pst_graph *graph,
                            const struct pst_cost_model *cost, bool quick, uint64_t *ret_ns,
                            struct pst_error *err)
{
    struct pst_sim_result result;
    pst_status status;

    if (quick) {
        return pst_judge_quick(plan, graph, cost, ret_ns, err);
    }
    status = pst_judge_steps(plan, graph, cost, 1, &result, err);

    if (status == PST_OK) {
        *ret_ns = result.period_ns;
    }
    return status;
}
