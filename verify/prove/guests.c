/* SPDX-License-Identifier: Apache-2.0
 *
 * PASS7, COMM1, COMM2: guests. What a micro-batch leaves for its backward passes goes to the device
 * that the stage names behind its F, and is back before the first backward pass of it begins; what
 * is sent back has surely arrived before. Nothing else is sent so.
 */
#include "prove/internal.h"

#include <stdio.h>
#include <string.h>

void pst_check_guest_table(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    check->guest_base = pst_check_array(check, (uint64_t)plan->n_stages + 1, sizeof(uint64_t));
    check->guest_tensors =
        pst_check_array(check, (uint64_t)plan->n_stages + 1, sizeof *check->guest_tensors);
    check->n_guest_tensors =
        pst_check_array(check, (uint64_t)plan->n_stages + 1, sizeof *check->n_guest_tensors);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        if (stage->n_guests > 0) {
            pst_plan_guest_tensors(stage, check->graph, &check->arena, &check->guest_tensors[s],
                                   &check->n_guest_tensors[s]);
        }
        check->guest_base[s + 1] =
            check->guest_base[s] + (uint64_t)stage->n_guests * stage->n_ranks;
    }
    uint64_t n = check->guest_base[plan->n_stages];
    check->guests = pst_check_array(check, n + 1, sizeof *check->guests);
    memset(check->guests, 0xFF, n * sizeof *check->guests);
}

static struct pst_check_guest *row_of(const struct pst_check *check,
                                      const struct pst_plan_stage *stage,
                                      const struct pst_plan_guest *guest, uint32_t place)
{
    uint64_t base = check->guest_base[stage - check->plan->stages];
    return &check->guests[base + (uint64_t)(guest - stage->guests) * stage->n_ranks + place];
}

/* Whose samples these are, of the same part as the rank that moves them: a place in the stage;
   PST_NONE: no replica's. */
static uint32_t place_of(const struct pst_check *check, const struct pst_plan_stage *stage,
                         uint32_t rank, const struct pst_instr *instr)
{
    const uint32_t samples = pst_plan_samples(stage), part = pst_check_part(check, rank);
    if (instr->n_samples != samples || instr->first_sample % samples != 0 ||
        part >= stage->tensor) {
        return PST_NONE;
    }
    return instr->first_sample % stage->microbatch_size / samples * stage->tensor + part;
}

struct pst_check_transfer *pst_check_guest_of(const struct pst_check *check, uint32_t rank,
                                              const struct pst_instr *instr)
{
    const struct pst_plan_stage *stage = &check->plan->stages[instr->stage];
    const struct pst_plan_guest *guest =
        pst_plan_guest_of(stage, instr->first_sample / stage->microbatch_size);
    struct pst_check_guest *row = row_of(check, stage, guest, place_of(check, stage, rank, instr));
    return instr->payload == PST_PAYLOAD_EVICT ? &row->evict : &row->load;
}

struct pst_check_transfer *pst_check_guest_transfer(struct pst_check *check, uint32_t rank,
                                                    uint32_t at, const struct pst_instr *instr)
{
    const struct pst_plan_stage *stage = &check->plan->stages[instr->stage];
    const struct pst_plan_guest *guest =
        pst_plan_guest_of(stage, instr->first_sample / stage->microbatch_size);
    uint32_t place = place_of(check, stage, rank, instr);
    if (guest == NULL || place == PST_NONE) {
        pst_check_instr(check, "COMM1", rank, at, ": %s",
                        guest == NULL
                            ? "that micro-batch is not a guest of any device"
                            : "samples that are not those of a micro-batch on one device");
        return NULL;
    }
    bool evict = instr->payload == PST_PAYLOAD_EVICT;
    bool home = evict == (instr->op == PST_I_SEND);
    uint32_t own = stage->ranks[place];
    uint32_t other = pst_plan_guest_rank(check->plan, stage, guest, place);
    if (rank != (home ? own : other) || instr->peer != (home ? other : own)) {
        pst_check_instr(check, "COMM1", rank, at, ": expected from device %u to %u",
                        evict ? own : other, evict ? other : own);
        return NULL;
    }
    return pst_check_guest_of(check, rank, instr);
}

/* Both ends are there, in the same order of their channel. */
static bool check_ends(struct pst_check *check, uint32_t from, uint32_t to, const char *name,
                       const struct pst_check_transfer *transfer)
{
    if (transfer->send == PST_NONE || transfer->recv == PST_NONE) {
        bool send = transfer->send == PST_NONE;
        pst_check_add(check, "COMM1", send ? from : to, PST_NONE, "no %s of %s %s device %u",
                      send ? "SEND" : "RECV", name, send ? "to" : "from", send ? to : from);
        return false;
    }
    if (transfer->send_seq != transfer->recv_seq) {
        pst_check_add(check, "COMM2", to, transfer->recv,
                      "%s received as number %u of the channel from device %u, sent as number %u "
                      "(there at %u)",
                      name, transfer->recv_seq, from, transfer->send_seq, transfer->send);
    }
    return true;
}

static uint32_t known_at(const struct pst_check *check, uint32_t rank, uint32_t instr)
{
    return check->known[check->list_base[rank] + instr];
}

static void check_guest(struct pst_check *check, uint32_t s, const struct pst_plan_guest *guest,
                        uint32_t place)
{
    const struct pst_plan_stage *stage = &check->plan->stages[s];
    const struct pst_check_guest *row = row_of(check, stage, guest, place);
    const struct pst_pass_row *pass = pst_check_row(check, s, guest->microbatch, place);
    uint32_t own = stage->ranks[place];
    uint32_t other = pst_plan_guest_rank(check->plan, stage, guest, place);
    char evict[64], load[64];
    snprintf(evict, sizeof evict, "stage %u, micro-batch %u, evict", s, guest->microbatch);
    snprintf(load, sizeof load, "stage %u, micro-batch %u, load", s, guest->microbatch);
    if (!check_ends(check, own, other, evict, &row->evict) ||
        !check_ends(check, other, own, load, &row->load)) {
        return;
    }
    uint32_t arrived = known_at(check, other, row->evict.recv);
    uint32_t back = known_at(check, own, row->load.recv);
    if (pass->f != PST_NONE && row->evict.send < pass->f) {
        pst_check_add(check, "PASS7", own, row->evict.send,
                      "%s: sent before the forward pass at %u", evict, pass->f);
    }
    if (arrived == PST_NONE || arrived > row->load.send) {
        pst_check_add(check, "PASS7", other, row->load.send,
                      "%s: nothing has waited for the RECV at %u yet", load, row->evict.recv);
    }
    if (pass->b != PST_NONE && (back == PST_NONE || back > pass->b)) {
        pst_check_add(check, "PASS7", own, pass->b,
                      "the backward pass does not wait for the RECV at %u of %s", row->load.recv,
                      load);
    }
}

void pst_check_guests(struct pst_check *check)
{
    for (uint32_t s = 0; s < check->plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &check->plan->stages[s];
        for (uint32_t i = 0; i < stage->n_guests; i++) {
            for (uint32_t r = 0; r < stage->n_ranks; r++) {
                check_guest(check, s, &stage->guests[i], r);
            }
        }
    }
}
