/* SPDX-License-Identifier: Apache-2.0
 *
 * What a walk over a list knows of its buffers: they are read and written while they live, read
 * after they are written, and not touched while the transport or a copy has them.
 */
#include "prove/program_replay.h"

#include <stdarg.h>
#include <stdio.h>

void pst_walk_fault(struct pst_walk *walk, const char *rule, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pst_check_add(walk->check, rule, walk->program->rank, walk->instr, "tick %u: %s", walk->tick,
                  text);
}

bool pst_walk_is_alive(const struct pst_walk *walk, uint32_t v)
{
    const struct pst_value *value = &walk->program->values[v];
    return value->first <= walk->tick && walk->tick <= value->last;
}

/* Filled by receives. */
static bool is_received(const struct pst_value *value)
{
    return value->kind == PST_V_RECV || value->kind == PST_V_RETURNED || value->kind == PST_V_GUEST;
}

void pst_walk_read(struct pst_walk *walk, uint32_t v, uint64_t bytes, const char *what)
{
    const struct pst_value *value = &walk->program->values[v];
    const struct pst_walk_value *state = &walk->states[v];
    if (value->kind == PST_V_HOST) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is in host memory", what, v);
    } else if (!pst_walk_is_alive(walk, v)) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is read outside its life, ticks %u to %u",
                       what, v, value->first, value->last);
    } else if (state->met_by > 0) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is read while replicas meet for it", what, v);
    } else if (value->kind == PST_V_FETCHED && state->written && walk->tick <= state->back) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is read before it is back from the host", what,
                       v);
    } else if (is_received(value) &&
               (state->received != value->bytes || state->ready > walk->instr)) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is read before all of it has been received",
                       what, v);
    } else if (!is_received(value) && !state->written) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is read before it is written", what, v);
    } else if (value->bytes < bytes) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) holds %llu bytes, %llu are read", what, v,
                       (unsigned long long)value->bytes, (unsigned long long)bytes);
    }
}

void pst_walk_write(struct pst_walk *walk, uint32_t v, uint64_t bytes, const char *what)
{
    const struct pst_value *value = &walk->program->values[v];
    struct pst_walk_value *state = &walk->states[v];
    if (value->kind == PST_V_HOST || value->kind == PST_V_FETCHED) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is for copies from and to the host", what, v);
    } else if (value->kind == PST_V_RETURNED || value->kind == PST_V_GUEST) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is for tensors of other devices", what, v);
    } else if (!pst_walk_is_alive(walk, v)) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is written outside its life, ticks %u to %u",
                       what, v, value->first, value->last);
    } else if (state->met_by > 0) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is written while replicas meet for it", what,
                       v);
    } else if (walk->tick < state->sent_until) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is written while it is sent or copied", what,
                       v);
    } else if (value->kind == PST_V_RECV && state->ready > walk->instr) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is written while it is received", what, v);
    } else if (value->bytes < bytes) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) holds %llu bytes, %llu are written", what, v,
                       (unsigned long long)value->bytes, (unsigned long long)bytes);
    } else if (state->output_of == walk->call + 1) {
        pst_walk_fault(walk, "MEM2", "%s (buffer %u) is written twice by one call", what, v);
    }
    state->written = true;
    state->is_sum = false;
    state->output_of = walk->call + 1;
}

void pst_walk_gradient(struct pst_walk *walk, uint32_t v, uint64_t expected, uint32_t first_sample,
                       const char *what)
{
    if (walk->states[v].gradient != expected * pst_walk_sample(first_sample)) {
        pst_walk_fault(walk, "MEM2",
                       "%s (buffer %u) is not the sum of all contributions to that gradient", what,
                       v);
    }
}
