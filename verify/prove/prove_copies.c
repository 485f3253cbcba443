/* SPDX-License-Identifier: Apache-2.0
 *
 * PASS6: what leaves the device for the host comes back. OFFLOAD stands behind the forward pass
 * that makes the bytes and waits for it; FETCH comes later and waits for its OFFLOAD; a backward
 * pass of the micro-batch waits for it. Whether that is the pass that reads first, MEM2 tells.
 */
#include <stdlib.h>

#include "base/util.h"
#include "prove/internal.h"

struct copy {
    uint32_t stage, microbatch, node, at;
};

static int by_name(const void *a, const void *b)
{
    const struct copy *x = a, *y = b;
    return PST_COMPARE_KEYS({x->stage, y->stage}, {x->microbatch, y->microbatch},
                            {x->node, y->node}, {x->at, y->at});
}

static bool offloads(const struct pst_plan_stage *stage, uint32_t node)
{
    uint32_t at = pst_plan_node(stage, node);
    return at != PST_NONE && stage->actions[at] == PST_ACTION_OFFLOAD;
}

static bool waits_for(const struct pst_instr *instr, uint32_t other)
{
    uint32_t at = pst_first_from(instr->waits, instr->n_waits, other);
    return at < instr->n_waits && instr->waits[at] == other;
}

static bool of_same(const struct pst_instr *a, const struct pst_instr *b)
{
    return a->stage == b->stage && a->microbatch == b->microbatch;
}

/* The pass behind which the copy at `at` stands; form has found that there is one. */
static uint32_t pass_before(const struct pst_instr *list, uint32_t at)
{
    while (at > 0 && !pst_check_is_pass(list[at].op)) {
        at--;
    }
    return at;
}

static void check_out(struct pst_check *check, uint32_t rank, const struct pst_instr *list,
                      uint32_t at)
{
    const struct pst_instr *copy = &list[at];
    uint32_t pass = pass_before(list, at);
    if (pst_check_place(check, rank, copy->stage) == PST_NONE) {
        pst_check_instr(check, "PASS6", rank, at, ": the stage is not on this device");
    } else if (!offloads(&check->plan->stages[copy->stage], copy->node)) {
        pst_check_instr(check, "PASS6", rank, at, ": the stage does not offload this operator");
    } else if (list[pass].op != PST_I_F || !of_same(&list[pass], copy)) {
        pst_check_instr(check, "PASS6", rank, at, " does not directly follow its forward pass");
    } else if (!waits_for(copy, pass)) {
        pst_check_instr(check, "PASS6", rank, at, " does not wait for the pass at %u", pass);
    }
}

static void check_in(struct pst_check *check, uint32_t rank, const struct pst_instr *list,
                     uint32_t out, uint32_t at)
{
    uint32_t known = check->known[check->list_base[rank] + at];
    if (!waits_for(&list[at], out)) {
        pst_check_instr(check, "PASS6", rank, at, " does not wait for its OFFLOAD at %u", out);
    }
    if (known == PST_NONE || list[known].op == PST_I_F || !pst_check_is_pass(list[known].op) ||
        !of_same(&list[known], &list[at])) {
        pst_check_instr(check, "PASS6", rank, at,
                        ": no backward pass of the micro-batch waits for it first");
    }
}

/* The copies of one operator and micro-batch: OFFLOAD and FETCH. */
static void check_group(struct pst_check *check, uint32_t rank, const struct copy *copies,
                        uint32_t n)
{
    const struct pst_instr *list = check->plan->devices[rank].body;
    if (list[copies[0].at].op != PST_I_OFFLOAD) {
        pst_check_instr(check, "PASS6", rank, copies[0].at, " comes before its OFFLOAD");
        return;
    }
    check_out(check, rank, list, copies[0].at);
    if (n < 2) {
        pst_check_instr(check, "PASS6", rank, copies[0].at, ": no FETCH, expected one");
    } else if (list[copies[1].at].op != PST_I_FETCH || n > 2) {
        uint32_t twice = list[copies[1].at].op != PST_I_FETCH ? 1 : 2;
        pst_check_instr(check, "PASS6", rank, copies[twice].at, " is there twice, expected once");
    } else {
        check_in(check, rank, list, copies[0].at, copies[1].at);
    }
}

static void check_list(struct pst_check *check, uint32_t rank)
{
    const struct pst_plan_device *device = &check->plan->devices[rank];
    uint32_t n = 0;
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        n += pst_check_is_copy(device->body[i].op);
    }
    if (n == 0) {
        return;
    }
    struct copy *copies = pst_alloc(n, sizeof *copies);
    n = 0;
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        const struct pst_instr *instr = &device->body[i];
        if (pst_check_is_copy(instr->op)) {
            copies[n++] = (struct copy){instr->stage, instr->microbatch, instr->node, i};
        }
    }
    qsort(copies, n, sizeof *copies, by_name);
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1;
             end < n && copies[end].stage == copies[i].stage &&
             copies[end].microbatch == copies[i].microbatch && copies[end].node == copies[i].node;
             end++) {
        }
        check_group(check, rank, &copies[i], end - i);
    }
    free(copies);
}

void pst_check_copies(struct pst_check *check)
{
    for (uint32_t d = 0; d < check->plan->n_devices; d++) {
        check_list(check, d);
    }
}
