/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of all rules: violations as they are found, arrays that live as long as the check, the
 * lists of all ranks and what they wait for, instructions in words.
 */
#include "prove/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Adds to the text which part of an unrolled list the instruction is in. */
static void add_origin(const struct pst_check *check, struct pst_violation *violation)
{
    static const char *const parts[PST_PARTS] = {"fill", "body", "drain"};
    struct pst_origin origin =
        pst_plan_origin(check->source, violation->device, violation->instr, check->n_batches, 0);
    size_t length = strlen(violation->text);
    snprintf(violation->text + length, sizeof violation->text - length, " (%s, instruction %u)",
             parts[origin.part], origin.instr);
}

void pst_check_add(struct pst_check *check, const char *rule, uint32_t device, uint32_t instr,
                   const char *format, ...)
{
    struct pst_check_report *report = check->report;
    const uint32_t at = report->n_violations;
    va_list args;

    va_start(args, format);
    pst_check_report_addv(report, rule, device, instr, format, args);
    va_end(args);
    if (at < PST_CHECK_MAX && check->source != NULL && device != PST_NONE && instr != PST_NONE) {
        add_origin(check, &report->violations[at]);
    }
}

void pst_check_instr(struct pst_check *check, const char *rule, uint32_t rank, uint32_t at,
                     const char *format, ...)
{
    char instr[64], text[sizeof((struct pst_violation *)NULL)->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pst_check_add(check, rule, rank, at, "%s%s",
                  pst_check_describe(&check->plan->devices[rank].body[at], instr), text);
}

bool pst_check_is_clean(struct pst_check *check, void (*rules)(struct pst_check *check))
{
    uint32_t before = check->report->n_violations;
    rules(check);
    return check->report->n_violations == before;
}

void *pst_check_array(struct pst_check *check, uint64_t count, size_t size)
{
    return pst_arena_array(&check->arena, count, size);
}

void pst_check_lists(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    check->list_base = pst_check_array(check, (uint64_t)plan->n_devices + 1, sizeof(uint64_t));
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        check->list_base[d + 1] = check->list_base[d] + plan->devices[d].n_instrs;
    }
}

/* When a rank knows that a transfer or reduction has ended: at the first instruction that waits for
   it, because the list stays there until it has. Nothing is inferred from the order of a queue,
   because transfers to different peers may overtake each other. */
void pst_check_waits(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    check->known = pst_arena_none(&check->arena, check->list_base[plan->n_devices]);
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        uint32_t *known = &check->known[check->list_base[d]];
        for (uint32_t i = 0; i < plan->devices[d].n_instrs; i++) {
            const struct pst_instr *instr = &plan->devices[d].body[i];
            for (uint32_t w = 0; w < instr->n_waits; w++) {
                if (known[instr->waits[w]] == PST_NONE) {
                    known[instr->waits[w]] = i;
                }
            }
        }
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
                 pst_payload_name(instr->payload), instr->first_sample, instr->n_samples,
                 instr->op == PST_I_SEND ? "to" : "from", instr->peer);
        break;
    case PST_I_OFFLOAD:
    case PST_I_FETCH:
        snprintf(text, room, "%s %u %u node %u", name, instr->stage, instr->microbatch,
                 instr->node);
        break;
    case PST_I_NORM:
        snprintf(text, room, "%s", name);
        break;
    case PST_I_REDUCE:
    case PST_I_MERGE:
    case PST_I_TIE:
    case PST_I_STEP:
    case PST_I_GATHER:
        snprintf(text, room, "%s %u", name, instr->stage);
        break;
    default:
        snprintf(text, room, "%s %u %u", name, instr->stage, instr->microbatch);
        break;
    }
    return text;
}
