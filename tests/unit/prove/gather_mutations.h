/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of plans whose replicas keep pieces of the weights (ZeRO 3): passes of the lists,
 * GATHERs of the programs, what kernels read.
 */
#ifndef TESTS_CHECK_GATHER_MUTATIONS_H
#define TESTS_CHECK_GATHER_MUTATIONS_H

#include "unit/prove/scatter_mutations.h"

/* --- lists ------------------------------------------------------------------------------------*/

/* Every pass of such a stage begins on all its ranks together: mu_swap_weights of any kind. */
static inline const char *mu_swap_passes(struct mutant *m, struct place p)
{
    return mu_swap_weights(m, p);
}

static inline const char *mu_lose_pass(struct mutant *m, struct place p)
{
    return mu_lose_weights(m, p);
}

/* After STEP nobody gathers. */
static inline const char *mu_add_gather(struct mutant *m, struct place p)
{
    struct pst_instr gather = {.op = PST_I_GATHER, .stage = mu_at(m, p)->stage};
    p.i++;
    mu_put_in(m, p, gather);
    return "PASS10";
}

/* Or somebody does. */
static inline const char *mu_zero_is_less(struct mutant *m, struct place p)
{
    rig_need(m->rig, pst_plan_replicas(&m->made.stages[mu_at(m, p)->stage]) > 1);
    m->rig->plan->zero = 1 + rig_draw(m->rig, 2);
    m->rig->plan->prefetch = m->rig->plan->zero == 2 ? m->made.prefetch : 0;
    return "PASS10";
}

static struct mutation gather_list_mutations[] = {
    MU_AT(swap_passes, mu_is_pass),
    MU_AT(lose_pass, mu_is_pass),
    MU_AT(add_gather, mu_is_step),
    MU_AT(zero_is_less, mu_is_step),
};
#define N_GATHER_LISTS (sizeof gather_list_mutations / sizeof gather_list_mutations[0])

/* --- GATHERs ----------------------------------------------------------------------------------*/

static inline struct pst_program_call *me_draw_gather(struct scene *scene)
{
    uint32_t first, n;
    return me_draw_call(scene, PST_C_GATHER, &first, &n);
}

static inline struct pst_program_meeting *me_meeting_of(const struct pst_program_call *call)
{
    return (struct pst_program_meeting *)call->meeting;
}

static inline struct pst_program_meeting *me_draw_bucket(struct scene *scene)
{
    return me_meeting_of(me_draw_gather(scene));
}

/* The first of the last parts, which are of one parameter. */
static inline uint32_t me_last_parameter(const struct pst_program_meeting *meeting)
{
    uint32_t at = meeting->n_parts - 1;
    while (at > 0 && meeting->parts[at - 1].value == meeting->parts[at].value) {
        at--;
    }
    return at;
}

/* Room for more parts; how many there were. */
static inline uint32_t me_more_parts(struct scene *scene, struct pst_program_meeting *meeting,
                                     uint32_t more, struct pst_program_meet_part **ret_parts,
                                     uint32_t **ret_sources)
{
    const uint32_t n = meeting->n_parts;
    struct pst_arena *arena = &scene->program->arena;
    *ret_parts = pst_arena_array(arena, (size_t)n + more, sizeof **ret_parts);
    *ret_sources = pst_arena_array(arena, (size_t)n + more, sizeof **ret_sources);
    memcpy(*ret_parts, meeting->parts, n * sizeof **ret_parts);
    memcpy(*ret_sources, meeting->sources, n * sizeof **ret_sources);
    meeting->parts = *ret_parts;
    meeting->sources = *ret_sources;
    meeting->n_parts = n + more;
    return n;
}

/* Parts from this one on come once more, at the end. */
static inline void me_repeat_parts(struct scene *scene, struct pst_program_meeting *meeting,
                                   uint32_t from, uint32_t n)
{
    struct pst_program_meet_part *parts;
    uint32_t *sources, end = me_more_parts(scene, meeting, n, &parts, &sources);
    memcpy(&parts[end], &parts[from], n * sizeof *parts);
    memcpy(&sources[end], &sources[from], n * sizeof *sources);
}

static inline const char *me_lose_gathered(struct scene *scene)
{
    me_drop_scatter(scene->rig, me_draw_gather(scene));
    scene->text = "is read before it is written";
    return "MEM2";
}

static inline const char *me_gather_nothing(struct scene *scene)
{
    me_draw_bucket(scene)->n_parts = 0;
    scene->text = "that does not begin with parameter";
    return "SHARD3";
}

static inline const char *me_gather_named(struct scene *scene)
{
    struct pst_program_call *call = me_draw_gather(scene);
    const uint32_t n = scene->rig->graph->n_params;
    rig_need(scene->rig, n > 1);
    call->op = (call->op + 1 + rig_draw(scene->rig, n - 1)) % n;
    scene->text = "that does not begin with parameter";
    return "SHARD3";
}

/* A GATHER lacks the last piece of a parameter. */
static inline const char *me_gather_short(struct scene *scene)
{
    struct pst_program_meeting *meeting = me_draw_bucket(scene);
    rig_need(scene->rig, me_last_parameter(meeting) + 1 < meeting->n_parts);
    meeting->n_parts--;
    return "SHARD3";
}

/* One parameter less than its layer has. Where the pass does not read it the others wait. */
static inline const char *me_gather_fewer(struct scene *scene)
{
    struct pst_program_meeting *meeting = me_draw_bucket(scene);
    rig_need(scene->rig, me_last_parameter(meeting) > 0);
    meeting->n_parts = me_last_parameter(meeting);
    scene->text = "or in another order";
    return "COMM4";
}

/* The next GATHER of the pass brings it. The others meet as often, for as much. */
static inline const char *me_gather_later(struct scene *scene)
{
    struct pst_program_call *call = me_draw_gather(scene), *next = call + 1;
    struct pst_program_meeting *from = me_meeting_of(call), *to;
    struct pst_program_meet_part *parts;
    uint32_t *sources, instr = 0, at = me_last_parameter(from);
    while (call >= scene->program->calls + scene->program->lists[instr].first_call +
                       scene->program->lists[instr].n_calls) {
        instr++;
    }
    const struct pst_program_instr *list = &scene->program->lists[instr];
    const struct pst_program_call *end = scene->program->calls + list->first_call + list->n_calls;
    while (next < end && next->kind != PST_C_GATHER) {
        next++;
    }
    rig_need(scene->rig, next < end && at > 0);
    to = me_meeting_of(next);
    const uint32_t n = from->n_parts - at;
    const uint32_t before = me_more_parts(scene, to, n, &parts, &sources);
    memmove(&parts[n], parts, before * sizeof *parts);
    memmove(&sources[n], sources, before * sizeof *sources);
    memcpy(parts, &from->parts[at], n * sizeof *parts);
    memcpy(sources, &from->sources[at], n * sizeof *sources);
    from->n_parts = at;
    next->op = scene->program->values[parts[0].value].what;
    scene->text = "or in another order";
    return "COMM4";
}

/* It changes places with the one after it, where one operator reads what both bring. */
static inline const char *me_gather_order(struct scene *scene)
{
    struct pst_program_call *call = NULL;
    uint32_t n = 0;
    for (uint32_t c = 0; c + 1 < scene->program->n_calls; c++) {
        struct pst_program_call *at = &scene->program->calls[c];
        if (at[0].kind == PST_C_GATHER && at[1].kind == PST_C_GATHER &&
            rig_draw(scene->rig, ++n) == 0) {
            call = at;
        }
    }
    rig_need(scene->rig, call != NULL);
    const struct pst_program_meeting *later = call->meeting, *sooner = call[1].meeting;
    const struct pst_program_call kept = call[0];
    for (uint32_t i = 0; i < sooner->n_parts; i++) {
        struct pst_value *value = &scene->program->values[sooner->parts[i].value];
        value->first = scene->program->values[later->parts[0].value].first;
    }
    for (uint32_t i = 0; i < later->n_parts; i++) {
        struct pst_value *value = &scene->program->values[later->parts[i].value];
        value->last += value->last == value->first;
    }
    call[0] = call[1];
    call[1] = kept;
    scene->text = "or in another order";
    return "COMM4";
}

/* A GATHER brings a parameter again, directly after itself or after others. */
static inline const char *me_gather_again(struct scene *scene)
{
    struct pst_program_meeting *meeting = me_draw_bucket(scene);
    const uint32_t at = me_last_parameter(meeting);
    me_repeat_parts(scene, meeting, at, meeting->n_parts - at);
    scene->text = "or is full";
    return "SHARD3";
}

static inline const char *me_gather_twice(struct scene *scene)
{
    struct pst_program_meeting *meeting = me_draw_bucket(scene);
    const uint32_t at = me_last_parameter(meeting);
    uint32_t n = 0;
    rig_need(scene->rig, at > 0);
    while (meeting->parts[n].value == meeting->parts[0].value) {
        n++;
    }
    me_repeat_parts(scene, meeting, 0, n);
    scene->text = "is written while replicas meet for it";
    return "MEM2";
}

static inline const char *me_gather_owner(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_bucket(scene);
    struct pst_program_meet_part *part = me_draw_meet_part(scene, meeting);
    part->owner = (part->owner + 1) % meeting->n_members;
    return "SHARD3";
}

static inline const char *me_gather_for_all(struct scene *scene)
{
    me_draw_meet_part(scene, me_draw_bucket(scene))->owner = PST_NONE;
    return "SHARD3";
}

static inline const char *me_gather_no_owner(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_bucket(scene);
    me_draw_meet_part(scene, meeting)->owner = meeting->n_members + rig_draw(scene->rig, 2);
    scene->text = "out of range";
    return "MEM2";
}

/* Two pieces of a parameter change owners, or one element goes to the neighbour. */
static inline struct pst_program_meet_part *me_draw_pieces(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_bucket(scene);
    struct pst_program_meet_part *part = me_draw_meet_part(scene, meeting);
    rig_need(scene->rig,
             part + 1 < meeting->parts + meeting->n_parts && part[1].value == part[0].value);
    return part;
}

static inline const char *me_gather_swap(struct scene *scene)
{
    struct pst_program_meet_part *part = me_draw_pieces(scene);
    const uint32_t kept = part[0].owner;
    part[0].owner = part[1].owner;
    part[1].owner = kept;
    return "SHARD3";
}

static inline const char *me_gather_border(struct scene *scene)
{
    struct pst_program_meet_part *part = me_draw_pieces(scene);
    const bool up = part[0].begin < part[1].begin;
    part[up].begin += 4;
    part[up].bytes -= 4;
    part[!up].bytes += 4;
    return "SHARD3";
}

/* Into another buffer, perhaps one that does not exist. */
static inline const char *me_gather_value(struct scene *scene)
{
    const uint32_t n = scene->program->n_values;
    struct pst_program_meet_part *part = me_draw_meet_part(scene, me_draw_bucket(scene));
    part->value = (part->value + 1 + rig_draw(scene->rig, n)) % (n + 1);
    return "SHARD3 MEM2";
}

/* A buffer that was made for something else: a gradient of the parameter, or another one's weights,
   which no operator of the stage reads. */
static inline const char *me_gather_kind(struct scene *scene)
{
    const struct pst_program_meet_part *part = me_draw_meet_part(scene, me_draw_bucket(scene));
    scene->program->values[part->value].kind = PST_V_SCRATCH;
    scene->text = "which is not for weights in pieces";
    return "SHARD3";
}

static inline const char *me_gather_stranger(struct scene *scene)
{
    struct pst_program_call *call = me_draw_gather(scene);
    struct pst_value *value = &scene->program->values[call->meeting->parts[0].value];
    call->op = value->what = me_draw_stranger(scene, value->stage);
    scene->text = "which is not for weights in pieces that the stage uses";
    return "SHARD3";
}

static inline const char *me_gather_members(struct scene *scene)
{
    struct pst_program_meeting *meeting = me_draw_bucket(scene);
    uint32_t *members = pst_arena_copy(&scene->program->arena, meeting->members, meeting->n_members,
                                       sizeof *members);
    members[0] = meeting->members[1];
    members[1] = meeting->members[0];
    meeting->members = members;
    return "COMM4";
}

static inline const char *me_gather_sums(struct scene *scene)
{
    me_draw_bucket(scene)->kind = PST_MEET_SUM;
    return "COMM4";
}

static inline const char *me_gather_alone(struct scene *scene)
{
    me_draw_gather(scene)->meeting = NULL;
    scene->text = "out of range";
    return "MEM2";
}

/* In a pass that the replicas begin apart. */
static inline const char *me_gather_apart(struct scene *scene)
{
    const struct pst_program_call *from = me_draw_gather(scene);
    struct mutant m = {.rig = scene->rig, .made = *scene->rig->plan};
    struct pst_program_call *drawn = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < scene->program->n_instrs; i++) {
        const struct pst_instr *instr = &scene->program->instrs[i];
        const struct pst_program_instr *list = &scene->program->lists[i];
        if (mu_is_pass(instr) && list->n_calls > 0 && !mu_sums(&m, instr) &&
            rig_draw(scene->rig, ++n) == 0) {
            drawn = &scene->program->calls[list->first_call];
        }
    }
    rig_need(scene->rig, drawn != NULL);
    const struct pst_program_call kept = *drawn;
    *drawn = *from;
    drawn->n_copy_waits = kept.n_copy_waits;
    drawn->first_copy_wait = kept.first_copy_wait;
    scene->text = "GATHER in a pass that its stage's devices begin apart";
    return "COMM4";
}

/* --- what the rank brings ---------------------------------------------------------------------*/

/* Draws the source of a part that the rank owns, or of one that it does not own. */
static inline uint32_t *me_draw_source(struct scene *scene, bool own)
{
    const struct pst_program_meeting *meeting = me_draw_bucket(scene);
    uint32_t n = 0, *drawn = NULL;
    for (uint32_t i = 0; i < meeting->n_parts; i++) {
        uint32_t *source = (uint32_t *)&meeting->sources[i];
        if ((*source != PST_NONE) == own && rig_draw(scene->rig, ++n) == 0) {
            drawn = source;
        }
    }
    rig_need(scene->rig, drawn != NULL);
    scene->text = "it does not bring its pieces of the weights";
    return drawn;
}

static inline const char *me_source_other(struct scene *scene)
{
    uint32_t *source = me_draw_source(scene, true);
    const uint32_t n = scene->program->n_values;
    *source = (*source + 1 + rig_draw(scene->rig, n)) % (n + 1); /* n: none */
    return "SHARD3";
}

static inline const char *me_source_none(struct scene *scene)
{
    *me_draw_source(scene, true) = PST_NONE;
    return "SHARD3";
}

/* The rank brings a part that another one owns. */
static inline const char *me_source_more(struct scene *scene)
{
    uint32_t *source = me_draw_source(scene, false);
    const struct pst_program_param *row = me_draw_param(scene);
    rig_need(scene->rig, row->versions[0] != PST_NONE);
    *source = row->versions[0];
    return "SHARD3";
}

/* The master instead of what passes read, or the piece of another parameter. */
static inline const char *me_source_row(struct scene *scene)
{
    uint32_t *source = me_draw_source(scene, true);
    const struct pst_program_param *row = me_draw_param(scene);
    const uint32_t v = rig_draw(scene->rig, 2) == 0 ? row->weight : row->working;
    rig_need(scene->rig, v != PST_NONE && v != *source);
    *source = v;
    return "SHARD3";
}

/* The buffer that is gathered: what it had before. */
static inline const char *me_source_stale(struct scene *scene)
{
    const struct pst_program_meeting *meeting = me_draw_bucket(scene);
    for (uint32_t i = 0; i < meeting->n_parts; i++) {
        if (meeting->sources[i] != PST_NONE) {
            ((uint32_t *)meeting->sources)[i] = meeting->parts[i].value;
            scene->text = "it does not bring its pieces of the weights";
            return "SHARD3";
        }
    }
    return NULL;
}

static inline const char *me_source_begin(struct scene *scene)
{
    struct pst_program_meeting *meeting = me_draw_bucket(scene);
    static const uint32_t term[1][2] = {{0, 0}};
    switch (rig_draw(scene->rig, 3)) {
    case 0:
        meeting->source_begin = 4;
        break;
    case 1:
        meeting->n_sources = meeting->n_parts;
        break;
    default:
        meeting->order = term;
        meeting->n_order = 1;
        break;
    }
    scene->text = "it does not bring its pieces of the weights";
    return "SHARD3";
}

static inline const char *me_sources_gone(struct scene *scene)
{
    me_draw_bucket(scene)->sources = NULL;
    scene->text = "out of range";
    return "MEM2";
}

/* --- what kernels read ------------------------------------------------------------------------*/

/* A parameter that a kernel reads where it was gathered; the instruction of the kernel. */
static inline uint32_t *me_draw_read(struct scene *scene, uint32_t *ret_instr)
{
    uint32_t n = 0, *drawn = NULL;
    for (uint32_t i = 0; i < scene->program->n_instrs; i++) {
        const struct pst_program_instr *list = &scene->program->lists[i];
        for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++) {
            const struct pst_program_call *call = &scene->program->calls[c];
            if (call->kind != PST_C_KERNEL) {
                continue;
            }
            const struct pst_op *op = &scene->rig->graph->ops[call->op];
            uint32_t *p = me_operands(scene, call) + pst_operands_of(op).p;
            for (uint32_t k = 0; k < op->n_param; k++) {
                if (p[k] != PST_NONE && scene->program->values[p[k]].kind == PST_V_GATHERED &&
                    rig_draw(scene->rig, ++n) == 0) {
                    drawn = &p[k];
                    *ret_instr = i;
                }
            }
        }
    }
    rig_need(scene->rig, drawn != NULL);
    return drawn;
}

static inline uint32_t me_last_tick(const struct scene *scene, uint32_t instr)
{
    const struct pst_program_instr *list = &scene->program->lists[instr];
    return list->first_tick + list->n_ticks - 1;
}

/* Where it was gathered for an earlier pass of the same micro-batch. It still lives. */
static inline const char *me_read_earlier(struct scene *scene)
{
    uint32_t instr, *read = me_draw_read(scene, &instr);
    const struct pst_value *own = &scene->program->values[*read];
    for (uint32_t v = 0; v < scene->program->n_values; v++) {
        struct pst_value *other = &scene->program->values[v];
        if (other->kind == PST_V_GATHERED && other->what == own->what &&
            other->stage == own->stage && other->microbatch == own->microbatch &&
            other->first < scene->program->lists[instr].first_tick) {
            *read = v;
            other->last = me_last_tick(scene, instr);
            scene->text = "was gathered for another pass";
            return "SHARD3";
        }
    }
    return NULL;
}

static inline const char *me_read_other_batch(struct scene *scene)
{
    uint32_t instr, *read = me_draw_read(scene, &instr);
    const struct pst_value *own = &scene->program->values[*read];
    for (uint32_t v = 0; v < scene->program->n_values; v++) {
        struct pst_value *other = &scene->program->values[v];
        if (other->kind == PST_V_GATHERED && other->what == own->what &&
            other->stage == own->stage && other->microbatch != own->microbatch) {
            *read = v;
            other->last = other->first < own->last ? own->last : other->last;
            scene->text = "of another micro-batch";
            return "MEM2";
        }
    }
    return NULL;
}

/* Another one's weights, or the rank's piece of them. */
static inline const char *me_read_other(struct scene *scene)
{
    uint32_t instr, *read = me_draw_read(scene, &instr);
    const struct pst_value *own = &scene->program->values[*read], *other;
    const uint32_t v = rig_draw(scene->rig, scene->program->n_values);
    other = &scene->program->values[v];
    rig_need(scene->rig, other->kind == PST_V_GATHERED && other->what != own->what);
    *read = v;
    scene->text = "which was made for something else";
    return "MEM2";
}

static inline const char *me_read_piece(struct scene *scene)
{
    uint32_t instr, *read = me_draw_read(scene, &instr);
    const struct pst_program_param *row = scene->program->params;
    while (row->parameter != scene->program->values[*read].what) {
        row++;
    }
    rig_need(scene->rig, row->versions[0] != PST_NONE);
    *read = row->versions[0];
    scene->text = "which was made for something else";
    return "MEM2";
}

/* It is there as long as somebody reads it, from when it is gathered. */
static inline const char *me_gathered_dies(struct scene *scene)
{
    uint32_t instr, *read = me_draw_read(scene, &instr);
    struct pst_value *value = &scene->program->values[*read];
    if (rig_draw(scene->rig, 2) == 0) {
        value->last--;
        scene->text = "is read outside its life";
    } else {
        value->first++;
        scene->text = "is written outside its life";
    }
    return "MEM2";
}

/* Something else is there while it is read. */
static inline const char *me_gathered_covered(struct scene *scene)
{
    uint32_t instr, *read = me_draw_read(scene, &instr), n = 0;
    const struct pst_value *own = &scene->program->values[*read];
    struct pst_value *drawn = NULL;
    for (uint32_t v = 0; v < scene->program->n_values; v++) {
        struct pst_value *other = &scene->program->values[v];
        if (v != *read && other->kind != PST_V_HOST && !other->is_static && other->bytes > 0 &&
            other->first <= own->last && other->last >= own->first &&
            rig_draw(scene->rig, ++n) == 0) {
            drawn = other;
        }
    }
    rig_need(scene->rig, drawn != NULL);
    drawn->offset = own->offset;
    scene->text = "overlaps buffer";
    return "MEM3";
}

/* Whole, though nobody reads it there. */
static inline const char *me_read_whole(struct scene *scene)
{
    uint32_t instr, *read = me_draw_read(scene, &instr);
    scene->program->values[*read].bytes -= 2;
    return "MEM2"; /* a part of the meeting that does not fit comes first */
}

/* A sum goes where weights are. */
static inline const char *me_sum_covers(struct scene *scene)
{
    uint32_t first, n, instr, *read = me_draw_read(scene, &instr);
    const struct pst_program_call *sum = me_draw_call(scene, PST_C_SUM, &first, &n);
    me_operands(scene, sum)[0] = *read;
    scene->text = "which is not for a gradient";
    return "MEM2";
}

/* --- what outlives the step -------------------------------------------------------------------*/

/* A row of a parameter in pieces, of which the rank has one. */
static inline struct pst_program_param *me_draw_kept(struct scene *scene)
{
    struct pst_program_param *row = me_draw_param(scene);
    rig_need(scene->rig, pst_plan_gathers(scene->rig->plan, row->stage, row->parameter) &&
                             row->shard.elems > 0);
    return row;
}

static inline const char *me_kept(struct scene *scene)
{
    struct pst_program_param *row = me_draw_param(scene);
    switch (rig_draw(scene->rig, 3)) {
    case 0:
        row->kept.first++;
        break;
    case 1:
        row->kept.elems++;
        break;
    default:
        rig_need(scene->rig, row->kept.elems > 0);
        row->kept.elems--;
        break;
    }
    scene->text = "it keeps other elements of the weights than it should";
    return "SHARD1";
}

/* All of the master, or one element too many. */
static inline const char *me_kept_master(struct scene *scene)
{
    const struct pst_program_param *row = me_draw_kept(scene);
    const uint64_t elems = scene->rig->graph->params[row->parameter].elems;
    rig_need(scene->rig, row->shard.elems < elems);
    scene->program->values[row->weight].bytes =
        (rig_draw(scene->rig, 2) == 0 ? elems : row->shard.elems + 1) * sizeof(float);
    scene->text = "its state is not that of the piece which this device updates";
    return "SHARD1";
}

/* All of what passes read. */
static inline const char *me_kept_working(struct scene *scene)
{
    const struct pst_program_param *row = me_draw_kept(scene);
    const struct pst_parameter *parameter = &scene->rig->graph->params[row->parameter];
    rig_need(scene->rig, row->shard.elems < parameter->elems);
    scene->program->values[row->working].bytes =
        parameter->elems * pst_dtype_bytes(parameter->dtype);
    scene->text = "its weights are not where they should be";
    return "MEM2";
}

/* An empty piece of which there is something, or the other way round. */
static inline const char *me_kept_empty(struct scene *scene)
{
    struct pst_program_param *row = me_draw_param(scene);
    const struct pst_program_param *other = me_draw_param(scene);
    uint32_t *versions =
        pst_arena_copy(&scene->program->arena, row->versions, row->n_versions, sizeof *versions);
    rig_need(scene->rig, pst_plan_gathers(scene->rig->plan, row->stage, row->parameter));
    row->working = versions[0] = row->working == PST_NONE ? other->working : PST_NONE;
    row->versions = versions;
    rig_need(scene->rig, row->shard.elems > 0 || row->working != PST_NONE);
    scene->text = "its weights are not where they should be";
    return "MEM2";
}

/* STEP updates another buffer than passes gather: the optimizer's state, as a second master. */
static inline const char *me_kept_twice(struct scene *scene)
{
    struct pst_program_param *row = me_draw_kept(scene);
    uint32_t *versions =
        pst_arena_copy(&scene->program->arena, row->versions, row->n_versions, sizeof *versions);
    rig_need(scene->rig, row->working == row->weight && row->optimizer[0] != PST_NONE);
    scene->program->values[row->optimizer[0]].kind = PST_V_WEIGHT;
    scene->program->values[row->optimizer[0]].slot = 0;
    row->working = versions[0] = row->optimizer[0];
    row->versions = versions;
    scene->text = "its weights are not where they should be";
    return "MEM2";
}

static struct memory_mutation gather_program_mutations[] = {
    ME(lose_gathered),
    ME(gather_nothing),
    ME(gather_named),
    ME(gather_short),
    ME(gather_fewer),
    ME(gather_later),
    ME(gather_order),
    ME(gather_again),
    ME(gather_twice),
    ME(gather_owner),
    ME(gather_for_all),
    ME(gather_no_owner),
    ME(gather_swap),
    ME(gather_border),
    ME(gather_value),
    ME(gather_kind),
    ME(gather_stranger),
    ME(gather_members),
    ME(gather_sums),
    ME(gather_alone),
    ME(gather_apart),
    ME(source_other),
    ME(source_none),
    ME(source_more),
    ME(source_row),
    ME(source_stale),
    ME(source_begin),
    ME(sources_gone),
    ME(read_earlier),
    ME(read_other_batch),
    ME(read_other),
    ME(read_piece),
    ME(gathered_dies),
    ME(gathered_covered),
    ME(read_whole),
    ME(sum_covers),
    ME(kept),
    ME(kept_master),
    ME(kept_working),
    ME(kept_empty),
    ME(kept_twice),
    ME(wait_early),
    ME(wait_many),
    ME(wait_two_sums),
};
#define N_GATHER_PROGRAMS (sizeof gather_program_mutations / sizeof gather_program_mutations[0])

#endif
