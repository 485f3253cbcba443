/* SPDX-License-Identifier: Apache-2.0
 *
 * Meetings of ranks in a program: REDUCE sums the gradients of a stage over its replicas, SCATTER
 * those of a bucket inside a pass, TIE those of a tied parameter over its uses; GATHER brings
 * pieces of weights together, the new ones of a stage or those that a pass reads; each among equal
 * parts.
 */
#include "plan/program_build.h"
#include "plan/program_classes.h"

struct parts {
    struct pst_program_meet_part *rows;
    uint32_t n;
};

/* A buffer whose members have the elements in pieces, or one that all have whole. */
static void add_buffer(struct parts *parts, const struct pst_shards *shards, uint32_t parameter,
                       uint32_t value, uint64_t elems, uint32_t elem_bytes)
{
    if (!pst_shards_cut(shards, parameter)) {
        parts->rows[parts->n++] = (struct pst_program_meet_part){
            .value = value, .owner = PST_NONE, .bytes = elems * elem_bytes};
        return;
    }
    for (uint32_t m = 0; m < shards->n; m++) {
        const struct pst_shard *piece =
            &shards->pieces[(size_t)shards->row_of[parameter] * shards->n + m];

        if (piece->elems > 0) {
            parts->rows[parts->n++] =
                (struct pst_program_meet_part){.value = value,
                                               .owner = m,
                                               .begin = piece->first * elem_bytes,
                                               .bytes = piece->elems * elem_bytes};
        }
    }
}

/* The ranks of a stage that are the same part as this one, in the order of the replicas. */
static const uint32_t *members_of(struct pst_builder *b, const struct pst_plan_stage *stage)
{
    const uint32_t n = pst_plan_replicas(stage), part = pst_plan_part(stage, b->rank);
    uint32_t *members;

    if (stage->tensor == 1) {
        return stage->ranks;
    }
    members = pst_arena_array(&b->program->arena, n, sizeof *members);
    for (uint32_t r = 0; r < n; r++) {
        members[r] = stage->ranks[r * stage->tensor + part];
    }
    return members;
}

static struct pst_program_meeting *make_meeting(struct pst_builder *b, uint8_t kind, uint32_t stage)
{
    const struct pst_plan_stage *of = &b->plan->stages[stage];
    struct pst_program_meeting *meeting = pst_arena_array(&b->program->arena, 1, sizeof *meeting);

    *meeting = (struct pst_program_meeting){
        .kind = kind, .n_members = pst_plan_replicas(of), .members = members_of(b, of)};
    return meeting;
}

/* --- REDUCE ------------------------------------------------------------------------------------*/

/* Whose gradients a REDUCE sums, modulo 2: the k-th of a stage is for batch k, and the first may
   stand in fill. */
static uint32_t parity_of(const struct pst_program *program,
                          const struct pst_program_section *section, uint32_t stage)
{
    const struct pst_program_section *fill = &program->sections[0];
    uint32_t ahead = 0;

    for (uint32_t i = 0; fill->part == PST_FILL && section->part != PST_FILL && i < fill->n_instrs;
         i++) {
        const struct pst_instr *instr = &program->instrs[fill->first_instr + i];

        ahead += instr->op == PST_I_REDUCE && instr->stage == stage;
    }
    return (section->phase + ahead) % 2;
}

static uint32_t count_grads(const struct pst_program *program)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < program->n_params; i++) {
        n += program->params[i].n_grads;
    }
    return n;
}

/* The accumulators of the stage's uses of each parameter, but for those whose passes sum. */
static const struct pst_program_meeting *make_reduce(struct pst_builder *b,
                                                     const struct pst_program_section *section,
                                                     uint32_t stage)
{
    const struct pst_shards *shards = &b->stages[stage].shards;
    const struct pst_program *program = b->program;
    const uint32_t parity = b->plan->deferred_step ? parity_of(program, section, stage) : 0;
    struct pst_program_meeting *meeting = make_meeting(b, PST_MEET_SUM, stage);
    struct parts parts = {NULL, 0};

    parts.rows = pst_arena_array(&b->program->arena, (size_t)count_grads(program) * shards->n,
                                 sizeof *parts.rows);
    for (uint32_t i = 0; i < program->n_params; i++) {
        const struct pst_program_param *row = &program->params[i];
        const struct pst_parameter *parameter = &b->graph->params[row->parameter];

        for (uint32_t g = 0; g < row->n_grads; g++) {
            if (b->stage_of[parameter->users[row->grad_users[g]]] == stage &&
                !pst_plan_scatters(b->plan, stage, row->parameter)) {
                add_buffer(&parts, shards, row->parameter, row->grads[parity * row->n_grads + g],
                           parameter->elems, sizeof(float));
            }
        }
    }
    meeting->parts = parts.rows;
    meeting->n_parts = parts.n;
    return meeting;
}

/* --- SCATTER -----------------------------------------------------------------------------------*/

const struct pst_program_meeting *pst_build_scatter(struct pst_builder *b, uint32_t stage)
{
    const struct pst_shards *shards = &b->stages[stage].shards;
    const uint32_t n = b->pass.n_summed;
    struct pst_program_meeting *meeting = make_meeting(b, PST_MEET_SUM, stage);
    struct parts parts = {NULL, 0};

    parts.rows = pst_arena_array(&b->program->arena, (size_t)n * shards->n, sizeof *parts.rows);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t scratch = b->pass.summed[i].scratch, p = b->program->values[scratch].what;

        add_buffer(&parts, shards, p, scratch, b->graph->params[p].elems, sizeof(float));
    }
    meeting->parts = parts.rows;
    meeting->n_parts = parts.n;
    return meeting;
}

/* --- MERGE -------------------------------------------------------------------------------------*/

/* The pieces that the rank updates, of uses of whole parameters of which each part made a part. */
static const struct pst_program_meeting *make_merge(struct pst_builder *b,
                                                    const struct pst_program_section *section,
                                                    uint32_t stage)
{
    const struct pst_plan_stage *of = &b->plan->stages[stage];
    const struct pst_program *program = b->program;
    const uint32_t parity = b->plan->deferred_step ? parity_of(program, section, stage) : 0;
    struct pst_program_meeting *meeting = pst_arena_array(&b->program->arena, 1, sizeof *meeting);
    struct parts parts = {NULL, 0};

    parts.rows = pst_arena_array(&b->program->arena, count_grads(program), sizeof *parts.rows);
    for (uint32_t i = 0; i < program->n_params; i++) {
        const struct pst_program_param *row = &program->params[i];
        const struct pst_parameter *parameter = &b->graph->params[row->parameter];

        for (uint32_t g = 0; g < row->n_grads && row->shard.elems > 0; g++) {
            const uint32_t user = row->grad_users[g], op = parameter->users[user];

            if (b->stage_of[op] == stage &&
                (b->graph->ops[op].partial >> parameter->user_slots[user] & 1) != 0) {
                parts.rows[parts.n++] = (struct pst_program_meet_part){
                    .value = row->grads[parity * row->n_grads + g],
                    .owner = PST_NONE,
                    .begin = (row->shard.first - row->grad_first) * sizeof(float),
                    .bytes = row->shard.elems * sizeof(float)};
            }
        }
    }
    *meeting =
        (struct pst_program_meeting){.kind = PST_MEET_SUM,
                                     .members = &of->ranks[b->stages[stage].replica * of->tensor],
                                     .n_members = of->tensor,
                                     .parts = parts.rows,
                                     .n_parts = parts.n};
    return meeting;
}

/* --- TIE ---------------------------------------------------------------------------------------*/

/* One accumulator per using operator, added in the order in which the model uses them, wherever
   they are: the sum is the same for every cut. */

static bool has_use(const struct pst_builder *b, uint32_t rank, uint32_t op)
{
    return pst_plan_replica(&b->plan->stages[b->stage_of[op]], rank) != PST_NONE;
}

/* The first member that has the `user`-th use, and which of its sources that is. */
static void find_term(const struct pst_builder *b, const struct pst_program_meeting *tie,
                      const struct pst_parameter *parameter, uint32_t user, uint32_t *ret_term)
{
    uint32_t m = 0, source = 0;

    while (!has_use(b, tie->members[m], parameter->users[user])) {
        m++;
    }
    for (uint32_t u = 0; u < user; u++) {
        source += has_use(b, tie->members[m], parameter->users[u]);
    }
    ret_term[0] = m;
    ret_term[1] = source;
}

static const struct pst_program_meeting *make_tie(struct pst_builder *b,
                                                  const struct pst_program_section *section,
                                                  const struct pst_instr *instr)
{
    const uint32_t p = b->plan->ties[instr->stage].parameter;
    const struct pst_parameter *parameter = &b->graph->params[p];
    const struct pst_program_param *row = &b->program->params[b->param_row[p]];
    uint32_t *members = pst_arena_array(&b->program->arena, b->plan->n_devices, sizeof *members);
    struct pst_program_meeting *tie = pst_arena_array(&b->program->arena, 1, sizeof *tie);
    struct pst_program_meet_part *part = pst_arena_array(&b->program->arena, 1, sizeof *part);
    uint32_t(*order)[2] = pst_arena_array(&b->program->arena, parameter->n_users, sizeof *order);

    *part = (struct pst_program_meet_part){
        .value = row->tie, .owner = PST_NONE, .bytes = row->shard.elems * sizeof(float)};
    *tie = (struct pst_program_meeting){
        .kind = PST_MEET_SUM,
        .members = members,
        .parts = part,
        .n_parts = row->shard.elems > 0 ? 1 : 0,
        .n_sources = row->n_grads,
        .sources = row->grads + (b->plan->deferred_step ? section->phase % 2 * row->n_grads : 0),
        .source_begin = (row->shard.first - row->grad_first) * sizeof(float),
        .order = (const uint32_t(*)[2])order,
        .n_order = parameter->n_users};
    tie->n_members = pst_plan_members(b->plan, instr, b->rank, members);
    for (uint32_t user = 0; user < parameter->n_users; user++) {
        find_term(b, tie, parameter, user, order[user]);
    }
    return tie;
}

/* --- GATHER ------------------------------------------------------------------------------------*/

/* The version that the update of the section's batch has made. */
static const struct pst_program_meeting *make_gather(struct pst_builder *b,
                                                     const struct pst_program_section *section,
                                                     uint32_t stage)
{
    const struct pst_shards *shards = &b->stages[stage].shards;
    const struct pst_program *program = b->program;
    struct pst_program_meeting *meeting = make_meeting(b, PST_MEET_GATHER, stage);
    struct parts parts = {NULL, 0};

    parts.rows = pst_arena_array(&b->program->arena, (size_t)program->n_params * shards->n,
                                 sizeof *parts.rows);
    for (uint32_t i = 0; i < program->n_params; i++) {
        const struct pst_program_param *row = &program->params[i];
        const struct pst_parameter *parameter = &b->graph->params[row->parameter];

        if (row->stage == stage && pst_shards_cut(shards, row->parameter)) {
            add_buffer(&parts, shards, row->parameter,
                       row->versions[(section->phase + 1) % row->n_versions], parameter->elems,
                       pst_dtype_bytes(parameter->dtype));
        }
    }
    meeting->parts = parts.rows;
    meeting->n_parts = parts.n;
    return meeting;
}

const struct pst_program_meeting *pst_build_gather(struct pst_builder *b, uint32_t stage,
                                                   const uint32_t *parameters,
                                                   const uint32_t *values, uint32_t n)
{
    const struct pst_shards *shards = &b->stages[stage].shards;
    struct pst_program_meeting *meeting = make_meeting(b, PST_MEET_GATHER, stage);
    uint32_t *sources = pst_arena_none(&b->program->arena, (size_t)n * shards->n);
    struct parts parts = {NULL, 0};

    parts.rows = pst_arena_array(&b->program->arena, (size_t)n * shards->n, sizeof *parts.rows);
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_parameter *parameter = &b->graph->params[parameters[i]];
        const uint32_t row = b->param_row[parameters[i]], first = parts.n;

        add_buffer(&parts, shards, parameters[i], values[i], parameter->elems,
                   pst_dtype_bytes(parameter->dtype));
        for (uint32_t p = first; p < parts.n; p++) {
            sources[p] = parts.rows[p].owner == b->stages[stage].replica
                             ? b->program->params[row].versions[0]
                             : PST_NONE;
        }
    }
    meeting->parts = parts.rows;
    meeting->n_parts = parts.n;
    meeting->sources = sources;
    return meeting;
}

const struct pst_program_meeting *pst_build_meeting(struct pst_builder *b,
                                                    const struct pst_program_section *section,
                                                    const struct pst_instr *instr)
{
    if (b->classes != NULL && b->classes->recording) {
        return NULL;
    }
    if (instr->op == PST_I_TIE) {
        return b->param_row[b->plan->ties[instr->stage].parameter] != PST_NONE
                   ? make_tie(b, section, instr)
                   : NULL;
    }
    if (instr->op == PST_I_MERGE) {
        return b->plan->stages[instr->stage].tensor > 1 && b->stages[instr->stage].local
                   ? make_merge(b, section, instr->stage)
                   : NULL;
    }
    if (pst_plan_replicas(&b->plan->stages[instr->stage]) < 2 || !b->stages[instr->stage].local) {
        return NULL;
    }
    return instr->op == PST_I_REDUCE ? make_reduce(b, section, instr->stage)
                                     : make_gather(b, section, instr->stage);
}
