/* SPDX-License-Identifier: Apache-2.0
 *
 * What was recorded in other processes, told to all of them, in the time of rank 0.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exec/state.h"
#include "exec/record_impl.h"

/* A visit as numbers: t, section, first instruction, how many; then start, end, stall of each. */
enum { FIELDS = 4 };

static size_t visit_words(const struct pst_recorder *recorder)
{
    uint32_t most = 0;

    for (uint32_t d = 0; d < recorder->plan->n_devices; d++) {
        uint32_t n = record_longest_section(recorder->programs[d]);

        most = n > most ? n : most;
    }
    return FIELDS + 3 * (size_t)most;
}

static uint64_t shift(uint64_t ns, int64_t by)
{
    return ns != 0 ? (uint64_t)((int64_t)ns + by) : 0;
}

static void pack(const struct record_rank *from, uint32_t n_visits, size_t words, int64_t clock_ns,
                 uint64_t *to)
{
    *to++ = from->n_entered;
    for (uint32_t v = 0; v < n_visits; v++, to += words) {
        const struct exec_visit *visit = &from->visits[v];
        uint64_t *row = to + FIELDS;

        to[0] = visit->t;
        to[1] = visit->section;
        to[2] = visit->first_instr;
        to[3] = visit->n_instrs;
        for (uint32_t i = 0; i < visit->n_instrs; i++) {
            *row++ = shift(visit->start[i], clock_ns);
            *row++ = shift(visit->end[i], clock_ns);
            *row++ = visit->stall[i];
        }
    }
}

static void unpack(struct record_rank *to, uint32_t n_visits, size_t words, const uint64_t *from)
{
    to->n_entered = *from++;
    for (uint32_t v = 0; v < n_visits; v++, from += words) {
        struct exec_visit *visit = &to->visits[v];
        const uint64_t *row = from + FIELDS;

        visit->t = from[0];
        visit->section = (uint32_t)from[1];
        visit->first_instr = (uint32_t)from[2];
        visit->n_instrs = (uint32_t)from[3];
        for (uint32_t i = 0; i < visit->n_instrs; i++) {
            visit->start[i] = *row++;
            visit->end[i] = *row++;
            visit->stall[i] = *row++;
        }
    }
}

pst_status pst_recorder_gather(struct pst_recorder *recorder, const struct pst_exec *exec,
                               struct pst_error *err)
{
    size_t words = visit_words(recorder), n = 1 + recorder->n_visits * words;
    uint64_t *mine, *all;
    pst_status status;

    if (!exec_is_shared(exec)) {
        return PST_OK;
    }
    mine = pst_alloc(n, sizeof *mine);
    all = pst_alloc(n * exec->n_ranks, sizeof *all);
    pack(&recorder->ranks[exec->first_local], recorder->n_visits, words,
         exec->config.transport->processes->clock_ns(), mine);
    status = exec_exchange(exec, mine, all, n * sizeof *mine, err);
    for (uint32_t r = 0; r < exec->n_ranks && status == PST_OK; r++) {
        unpack(&recorder->ranks[r], recorder->n_visits, words, all + r * n);
    }
    free(mine);
    free(all);
    return status;
}
