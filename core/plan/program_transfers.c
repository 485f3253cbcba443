/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers of transfers: what a SEND reads, where a RECV writes. Both ends list the same pieces in
 * the same order: the tensors of the edge, for gradients one piece per separate use.
 *
 * Buffers of guests: at home a micro-batch has two sets, what its F leaves, which dies when EVICT
 * is known to have ended, and what LOAD fills, which its backward passes read. The device that
 * keeps it has one, from when EVICT is posted there until LOAD is known to have ended.
 */
#include "base/util.h"
#include "plan/program_build.h"

/* --- guests ------------------------------------------------------------------------------------*/

void pst_build_guest_tables(struct pst_builder *b)
{
    b->guests = pst_arena_array(&b->arena, (size_t)b->plan->n_stages + 1, sizeof *b->guests);
    for (uint32_t s = 0; s < b->plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &b->plan->stages[s];
        struct pst_build_guests *guests = &b->guests[s];

        if (stage->n_guests == 0) {
            continue;
        }
        guests->values = pst_arena_none(&b->arena, stage->n_microbatches);
        pst_plan_guest_tensors(stage, b->graph, &b->arena, &guests->tensors, &guests->n_tensors);
    }
}

/* A buffer for each tensor, one behind the other. */
static void make_values(struct pst_builder *b, uint32_t s, uint32_t j, uint8_t kind)
{
    struct pst_build_guests *guests = &b->guests[s];

    for (uint32_t i = 0; i < guests->n_tensors && !b->failed; i++) {
        const struct pst_tensor *tensor = &b->graph->tensors[guests->tensors[i]];
        uint32_t value = pst_build_value(b, kind, s, j, guests->tensors[i], i,
                                         pst_tensor_bytes(tensor, pst_build_samples(b, s)));

        guests->values[j] = i == 0 ? value : guests->values[j];
    }
}

/* A piece of the transfer that is being built; the value is used now. */
static void build_part(struct pst_builder *b, uint32_t value, uint64_t begin, uint64_t bytes)
{
    struct pst_program *program = b->program;

    if (value == PST_NONE) {
        b->failed = true;
        return;
    }
    pst_grow(&program->parts, &b->room.parts, program->n_parts, sizeof *program->parts);
    program->parts[program->n_parts++] = (struct pst_transfer_part){value, begin, bytes};
    pst_build_use(b, value);
}

static void build_guest(struct pst_builder *b, const struct pst_instr *instr)
{
    uint32_t s = instr->stage, j = instr->first_sample / b->plan->stages[s].microbatch_size;
    const struct pst_build_guests *guests = &b->guests[s];
    bool evict = instr->payload == PST_PAYLOAD_EVICT, send = instr->op == PST_I_SEND;
    bool home = evict == send; /* this end of it */

    if (guests->values == NULL || j >= b->plan->stages[s].n_microbatches ||
        home != b->stages[s].local) {
        b->failed = true;
        return;
    }
    if (!send) {
        make_values(b, s, j, home ? PST_V_RETURNED : PST_V_GUEST);
    }
    for (uint32_t i = 0; i < guests->n_tensors && !b->failed; i++) {
        uint32_t value = home && send ? *pst_build_act(b, s, j, guests->tensors[i])
                         : guests->values[j] == PST_NONE ? PST_NONE
                                                         : guests->values[j] + i;

        build_part(b, value, 0, value == PST_NONE ? 0 : b->program->values[value].bytes);
    }
}

void pst_build_returned(struct pst_builder *b, uint32_t s, uint32_t j)
{
    const struct pst_build_guests *guests = &b->guests[s];

    for (uint32_t i = 0;
         guests->values != NULL && guests->values[j] != PST_NONE && i < guests->n_tensors; i++) {
        *pst_build_act(b, s, j, guests->tensors[i]) = guests->values[j] + i;
    }
}

/* --- edges -------------------------------------------------------------------------------------*/

static void list_items(struct pst_builder *b, const struct pst_plan_edge *edge,
                       struct pst_edge_items *items)
{
    size_t most = 0;

    for (uint32_t i = 0; i < edge->n_tensors; i++) {
        most += b->graph->tensors[edge->tensors[i]].n_consumers;
    }
    items->at = pst_arena_array(&b->arena, most, sizeof *items->at);
    for (uint32_t i = 0; i < edge->n_tensors; i++) {
        uint32_t tensor = edge->tensors[i];
        const struct pst_tensor *t = &b->graph->tensors[tensor];
        bool apart = b->separate[tensor] != PST_NONE;

        for (uint32_t u = 0; t->needs_grad && u < (apart ? t->n_consumers : 1); u++) {
            if (!apart || b->stage_of[t->consumers[u]] == edge->to) {
                items->at[items->n].tensor = tensor;
                items->at[items->n++].use = apart ? u : PST_NONE;
            }
        }
    }
}

void pst_build_edges(struct pst_builder *b)
{
    const struct pst_plan *plan = b->plan;

    b->items = pst_arena_array(&b->arena, plan->n_edges, sizeof *b->items);
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        struct pst_stage_build *from = &b->stages[plan->edges[e].from];

        list_items(b, &plan->edges[e], &b->items[e]);
        b->items[e].before = from->last_edge;
        from->last_edge = e;
        if (from->local) {
            b->items[e].received =
                pst_build_made(b, PST_MADE_VALUES, (size_t)from->n_micros * b->items[e].n);
        }
    }
}

/* The sender's buffer or the receiver's slot, made when its first rows are awaited. */
static void add_piece(struct pst_builder *b, const struct pst_instr *instr, uint32_t stage,
                      uint32_t tensor, uint32_t item, uint32_t *slot)
{
    uint32_t microbatch = instr->first_sample / b->plan->stages[stage].microbatch_size;
    uint32_t first = pst_build_first_sample(b, stage, microbatch);
    uint64_t row = b->graph->tensors[tensor].bytes;

    if (instr->op == PST_I_RECV && *slot == PST_NONE) {
        *slot = pst_build_value(b, PST_V_RECV, stage, microbatch, tensor, item,
                                row * pst_build_samples(b, stage));
    }
    build_part(b, *slot, (instr->first_sample - first) * row, instr->n_samples * row);
}

static void transfer_gradient(struct pst_builder *b, const struct pst_instr *instr)
{
    const struct pst_plan_edge *edge = &b->plan->edges[instr->stage];
    const struct pst_edge_items *items = &b->items[instr->stage];
    bool send = instr->op == PST_I_SEND;
    uint32_t stage = send ? edge->to : edge->from;
    uint32_t microbatch = instr->first_sample / b->plan->stages[stage].microbatch_size;
    struct pst_micro *micro = &b->stages[stage].micros[microbatch];

    for (uint32_t i = 0; i < items->n; i++) {
        uint32_t tensor = items->at[i].tensor, use = items->at[i].use;
        uint32_t *slot = !send             ? &items->received[(size_t)microbatch * items->n + i]
                         : use != PST_NONE ? &micro->contrib[b->separate[tensor] + use]
                                           : pst_build_dact(b, stage, microbatch, tensor);

        add_piece(b, instr, stage, tensor, i, slot);
    }
}

void pst_build_transfer(struct pst_builder *b, const struct pst_instr *instr)
{
    const struct pst_plan_edge *edge;

    if (pst_instr_moves_guest(instr)) {
        build_guest(b, instr);
        return;
    }
    edge = &b->plan->edges[instr->stage];
    if (instr->payload == PST_PAYLOAD_GRAD) {
        transfer_gradient(b, instr);
        return;
    }
    for (uint32_t i = 0; i < edge->n_tensors; i++) {
        uint32_t stage = instr->op == PST_I_SEND ? edge->from : edge->to;
        uint32_t microbatch = instr->first_sample / b->plan->stages[stage].microbatch_size;

        add_piece(b, instr, stage, edge->tensors[i], 0,
                  pst_build_act(b, stage, microbatch, edge->tensors[i]));
    }
}
