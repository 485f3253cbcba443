/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of ranks whose replicas have several parts, from random plans of groups: lists, peers,
 * guests, meetings and owners by their definition, the programs of parts against those of groups.
 */
#include "unit/plan/groups.h"
#include "unit/prove/async_rig.h"

enum { KINDS = 6, ROUNDS = 120, MOST_RANKS = RIG_MAX * 4, MOST_MEETINGS = 4096 };

/* A plan of groups with what it becomes. */
struct pair {
    struct rig rig;
    uint32_t tensor;
    struct pst_plan *ranks;
    struct pst_program *programs[MOST_RANKS];
};

static void close_pair(struct pair *pair)
{
    for (uint32_t r = 0; r < MOST_RANKS; r++) {
        pst_program_destroy(pair->programs[r]);
    }
    pst_plan_destroy(pair->ranks);
    rig_close(&pair->rig);
}

static void draw_groups(struct rig *rig, uint32_t kind)
{
    struct rig_shape shape = rig_draw_shape(rig);
    struct async_shape parts = async_draw_shape(rig, kind == 4 ? 3 : 0);

    if (kind >= 4) { /* asynchronous: with replicas, or weights stashed away to the host */
        parts.offload = kind == 5;
        parts.zero = kind == 4 && rig_draw(rig, 2) == 0;
        while (!async_plan(rig, &parts)) {
            rig_drop_plan(rig);
            parts = async_draw_shape(rig, kind == 4 ? 3 : 0);
        }
        rig_programs(rig);
        return;
    }
    shape.replicas = kind != 1;
    shape.two_way = kind == 1;
    shape.devices += kind == 1 ? shape.devices % 2 : 0;
    shape.microbatch = kind == 1 ? 2 : shape.batch;
    shape.zero = kind == 2;
    shape.guests = kind == 3;
    if (kind == 3) { /* there is time for them */
        shape.batch = 6;
        shape.microbatch = shape.devices > 2 ? 1 : 2;
        shape.replicas = shape.microbatch == 2;
    }
    rig_plan(rig, &shape);
}

/* Every second parameter is split, as far as that can be, and every fourth has a partial gradient.
 */
static void split_parameters(struct pst_graph *graph, uint32_t tensor)
{
    graph->parts = tensor;
    for (uint32_t p = 0; p < graph->n_params; p++) {
        const struct pst_parameter *parameter = &graph->params[p];

        graph->params[p].box.parts = p % 2 == 0 ? tensor : 0;
        for (uint32_t u = 0; p % 4 == 1 && u < parameter->n_users; u++) {
            graph->ops[parameter->users[u]].partial |= 1u << parameter->user_slots[u];
        }
    }
}

static void open_pair(struct pair *pair, uint32_t i)
{
    struct pst_error err = {0};
    const char *model = i % 5 == 0 ? "mlp" : "gpt";

    memset(pair, 0, sizeof *pair);
    pair->tensor = 2 + i % 3;
    rig_open(&pair->rig, model,
             i % 5 == 0 ? "inputs=12 hidden=16 layers=6 classes=5"
                        : "layers=2 dim=16 heads=2 context=8 vocab=600",
             8100 + i);
    split_parameters(pair->rig.graph, pair->tensor);
    draw_groups(&pair->rig, i % KINDS);
    expand_groups(pair->rig.plan, pair->rig.graph, &pair->ranks);
    assert_int_equal(pair->ranks->n_devices, pair->rig.plan->n_devices * pair->tensor);
    assert_true(pair->ranks->n_devices <= MOST_RANKS);
    assert_ok(pst_programs_create(pair->ranks, pair->rig.graph, &pair->rig.cost, PST_PROGRAM_WHOLE,
                                  NULL, pair->programs, &err),
              &err);
}

/* --- stages and lists --------------------------------------------------------------------------*/

static void expect_numbers(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(a[i], b[i]);
    }
    assert_true(n == 0 || a != b); /* each plan has its own */
}

static void expect_stage(const struct pair *pair, uint32_t s)
{
    const struct pst_plan_stage *of = &pair->rig.plan->stages[s], *stage = &pair->ranks->stages[s];
    const uint32_t T = pair->tensor;

    assert_int_equal(stage->tensor, T);
    assert_int_equal(pst_plan_replicas(stage), of->n_ranks);
    assert_int_equal(pst_plan_samples(stage), pst_plan_samples(of));
    for (uint32_t replica = 0; replica < of->n_ranks; replica++) {
        for (uint32_t part = 0; part < T; part++) {
            const uint32_t rank = of->ranks[replica] * T + part;

            assert_int_equal(stage->ranks[replica * T + part], rank);
            assert_int_equal(pst_plan_replica(stage, rank), replica);
            assert_int_equal(pst_plan_part(stage, rank), part);
        }
    }
    expect_numbers(stage->nodes, of->nodes, of->n_nodes);
    assert_memory_equal(stage->actions, of->actions, of->n_nodes);
    assert_int_equal(stage->n_guests, of->n_guests);
    for (uint32_t g = 0; g < of->n_guests; g++) {
        assert_int_equal(stage->guests[g].microbatch, of->guests[g].microbatch);
        for (uint32_t i = 0; i < stage->n_ranks; i++) {
            assert_int_equal(pst_plan_guest_rank(pair->ranks, stage, &stage->guests[g], i),
                             pst_plan_guest_rank(pair->rig.plan, of, &of->guests[g], i / T) * T +
                                 i % T);
        }
    }
}

static void expect_list(const struct pair *pair, uint32_t rank, enum pst_part part)
{
    const uint32_t T = pair->tensor;
    uint32_t n, n_of;
    const struct pst_instr *of = pst_plan_list(&pair->rig.plan->devices[rank / T], part, &n_of);
    const struct pst_instr *list = pst_plan_list(&pair->ranks->devices[rank], part, &n);

    assert_int_equal(n, n_of);
    for (uint32_t i = 0; i < n; i++) {
        struct pst_instr back = list[i];

        expect_numbers(list[i].waits, of[i].waits, of[i].n_waits);
        back.waits = of[i].waits;
        if (of[i].op == PST_I_SEND || of[i].op == PST_I_RECV) {
            assert_int_equal(back.peer % T, rank % T);
            back.peer /= T;
        }
        assert_memory_equal(&back, &of[i], sizeof back);
    }
}

static const struct pst_instr *next_end(const struct pst_plan_device *device, uint32_t *at,
                                        uint8_t op, uint32_t peer)
{
    while (*at < device->n_instrs &&
           (device->body[*at].op != op || device->body[*at].peer != peer)) {
        ++*at;
    }
    return *at < device->n_instrs ? &device->body[(*at)++] : NULL;
}

/* The sends of one rank to another are the receives of the other, in the same order. */
static void expect_channel(const struct pst_plan *plan, uint32_t from, uint32_t to)
{
    uint32_t sent = 0, received = 0;
    const struct pst_instr *send, *recv;

    do {
        send = next_end(&plan->devices[from], &sent, PST_I_SEND, to);
        recv = next_end(&plan->devices[to], &received, PST_I_RECV, from);
        assert_true((send == NULL) == (recv == NULL));
        if (send != NULL) {
            assert_int_equal(send->stage, recv->stage);
            assert_int_equal(send->payload, recv->payload);
            assert_int_equal(send->first_sample, recv->first_sample);
            assert_int_equal(send->n_samples, recv->n_samples);
        }
    } while (send != NULL);
}

TEST(lists)
{
    uint32_t n_guests = 0;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        FINISHED_BY(close_pair) struct pair pair;

        open_pair(&pair, i);
        for (uint32_t s = 0; s < pair.ranks->n_stages; s++) {
            expect_stage(&pair, s);
            n_guests += pair.ranks->stages[s].n_guests;
        }
        for (uint32_t r = 0; r < pair.ranks->n_devices; r++) {
            for (uint32_t part = 0; part < PST_PARTS; part++) {
                expect_list(&pair, r, part);
            }
            for (uint32_t other = 0; other < pair.ranks->n_devices; other++) {
                if (!pair.ranks->asynchronous) {
                    expect_channel(pair.ranks, r, other);
                }
            }
        }
    }
    assert_true(n_guests > 20);
}

/* Ranks of one group are one logical device with the others of it. */
TEST(logical_devices)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        FINISHED_BY(close_pair) struct pair pair;
        uint32_t of[RIG_MAX], own[MOST_RANKS];

        open_pair(&pair, i);
        assert_int_equal(pst_plan_logical(pair.ranks, own), pst_plan_logical(pair.rig.plan, of));
        for (uint32_t r = 0; r < pair.ranks->n_devices; r++) {
            assert_int_equal(own[r], of[r / pair.tensor]);
        }
    }
}

/* Nothing of the plan of groups is left in it. */
TEST(owns_all)
{
    for (uint32_t i = 0; i < KINDS; i++) {
        FINISHED_BY(close_pair) struct pair pair;
        struct pst_plan_stated stated = {.versions = 3};
        uint64_t peaks[64] = {5, 6, 7};
        char words[] = "words of a plan", *before, *after;

        open_pair(&pair, i);
        pst_plan_destroy(pair.ranks);
        stated.stage_peaks = peaks;
        pair.rig.plan->config_json = pair.rig.plan->partitioner = pair.rig.plan->scheduler = words;
        pair.rig.plan->memopt = pair.rig.plan->times = words;
        pair.rig.plan->devices[0].kind = words;
        pair.rig.plan->stated = &stated;
        expand_groups(pair.rig.plan, pair.rig.graph, &pair.ranks);
        before = pst_plan_to_json(pair.ranks, pair.rig.graph);
        memset(words, 'x', sizeof words - 1);
        memset(peaks, 0, sizeof peaks);
        stated.versions = 0;
        rig_drop_plan(&pair.rig);
        after = pst_plan_to_json(pair.ranks, pair.rig.graph);
        assert_string_equal(before, after);
        assert_int_equal(pair.ranks->stated->versions, 3);
        assert_int_equal(pair.ranks->stated->stage_peaks[0], 5);
        free(before);
        free(after);
    }
}

/* --- what is made of a plan --------------------------------------------------------------------*/

static void expect_same(struct pst_plan *a, struct pst_plan *b)
{
    const struct pst_hash hash_a = pst_plan_digest(a), hash_b = pst_plan_digest(b);

    assert_true(pst_hash_equal(&hash_a, &hash_b));
    assert_int_equal(a->kept_output, b->kept_output);
    pst_plan_destroy(a);
    pst_plan_destroy(b);
}

/* It does not matter whether parts are made before or after. */
TEST(twins_and_unrolled_plans)
{
    uint32_t n_unrolled = 0;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        FINISHED_BY(close_pair) struct pair pair;
        struct pst_plan *groups, *after, *before;
        struct pst_error err = {0};

        open_pair(&pair, i);
        for (uint32_t r = 0; r < pair.ranks->n_devices; r++) {
            pair.ranks->devices[r].lacks_bytes = r / pair.tensor * 4096;
        }
        assert_ok(pst_plan_forward_twin(pair.rig.plan, pair.rig.graph, &pair.rig.cost,
                                        pair.rig.plan->batch, 0, &groups, &err),
                  &err);
        expand_groups(groups, pair.rig.graph, &after);
        pst_plan_destroy(groups);
        assert_ok(pst_plan_forward_twin(pair.ranks, pair.rig.graph, &pair.rig.cost,
                                        pair.rig.plan->batch, 0, &before, &err),
                  &err);
        for (uint32_t r = 0; r < before->n_devices; r++) {
            assert_int_equal(before->devices[r].lacks_bytes, r / pair.tensor * 4096);
        }
        expect_same(before, after);
        if (pair.ranks->asynchronous) {
            assert_ok(pst_plan_unroll(pair.rig.plan, 3, 2, &groups, &err), &err);
            expand_groups(groups, pair.rig.graph, &after);
            pst_plan_destroy(groups);
            assert_ok(pst_plan_unroll(pair.ranks, 3, 2, &before, &err), &err);
            expect_same(before, after);
            n_unrolled++;
        }
    }
    assert_true(n_unrolled > 20);
}

static void expect_program(const struct pst_program *program, const struct pst_program *of)
{
    assert_int_equal(program->arena_bytes, of->arena_bytes);
    assert_int_equal(program->peak_bytes, of->peak_bytes);
    assert_int_equal(program->host_bytes, of->host_bytes);
    assert_int_equal(program->n_instrs, of->n_instrs);
    assert_int_equal(program->n_calls, of->n_calls);
    assert_int_equal(program->n_values, of->n_values);
    assert_int_equal(program->n_parts, of->n_parts);
    assert_int_equal(program->n_operands, of->n_operands);
    assert_memory_equal(program->operands, of->operands, of->n_operands * sizeof *of->operands);
    for (uint32_t v = 0; v < of->n_values; v++) {
        const struct pst_value *a = &program->values[v], *b = &of->values[v];

        assert_true(a->kind == b->kind && a->what == b->what && a->bytes == b->bytes &&
                    a->offset == b->offset && a->first == b->first && a->last == b->last);
    }
    for (uint32_t c = 0; c < of->n_calls; c++) {
        const struct pst_program_call *a = &program->calls[c], *b = &of->calls[c];

        assert_true(a->kind == b->kind && a->pass == b->pass && a->op == b->op &&
                    a->first_sample == b->first_sample && a->samples == b->samples);
    }
}

/* Each part does what its group does, with the same buffers in the same places. */
TEST(programs_of_parts_are_those_of_groups)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        FINISHED_BY(close_pair) struct pair pair;

        open_pair(&pair, i);
        for (uint32_t r = 0; r < pair.ranks->n_devices; r++) {
            expect_program(pair.programs[r], pair.rig.programs[r / pair.tensor]);
        }
    }
}

/* The owners have each element of a whole parameter once, and each of a split one in each part. */
TEST(owners)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        FINISHED_BY(close_pair) struct pair pair;
        uint64_t owned[64][4] = {{0}};

        open_pair(&pair, i);
        for (uint32_t r = 0; r < pair.ranks->n_devices; r++) {
            for (uint32_t k = 0; k < pair.programs[r]->n_params; k++) {
                const struct pst_program_param *row = &pair.programs[r]->params[k];

                assert_true(row->parameter < 64);
                owned[row->parameter][r % pair.tensor] += row->owner ? row->shard.elems : 0;
            }
        }
        for (uint32_t t = 0; t < pair.ranks->n_ties; t++) { /* parts share no state */
            const struct pst_plan_tie *tie = &pair.ranks->ties[t];

            assert_false(pst_plan_cuts(pair.ranks, tie->stages[0], tie->parameter) &&
                         pst_plan_replicas(&pair.ranks->stages[tie->stages[0]]) == 1);
        }
        for (uint32_t p = 0; p < pair.rig.graph->n_params; p++) {
            const struct pst_parameter *parameter = &pair.rig.graph->params[p];

            for (uint32_t part = 0; part < pair.tensor; part++) {
                const bool counts = parameter->box.parts > 1 || part == 0;

                assert_int_equal(owned[p][part], counts ? parameter->elems : 0);
            }
        }
    }
}

/* --- meetings ----------------------------------------------------------------------------------*/

static bool holds(const struct pst_plan_stage *stage, uint32_t rank, uint32_t *ret_replica)
{
    for (uint32_t i = 0; i < stage->n_ranks; i++) {
        if (stage->ranks[i] == rank) {
            *ret_replica = i / stage->tensor;
            return true;
        }
    }
    return false;
}

/* By definition: equal parts that have the stage, or use the parameter, of which they update the
   same elements; in MERGE the parts of one replica. */
static bool should_meet(const struct pair *pair, const struct pst_instr *instr, uint32_t rank,
                        uint32_t other)
{
    const struct pst_plan *plan = pair->ranks;
    const struct pst_plan_tie *tie = &plan->ties[instr->stage];
    uint32_t own = 0, its = 0;
    bool here = false, there = false;

    if (instr->op == PST_I_NORM) {
        return true;
    }
    if (instr->op == PST_I_MERGE) {
        return other / pair->tensor == rank / pair->tensor;
    }
    if (instr->op != PST_I_TIE) {
        there = holds(&plan->stages[instr->stage], other, &its);
        return there && other % pair->tensor == rank % pair->tensor;
    }
    for (uint32_t s = 0; s < tie->n_stages; s++) {
        here = here || holds(&plan->stages[tie->stages[s]], rank, &own);
        there = there || holds(&plan->stages[tie->stages[s]], other, &its);
    }
    return here && there && other % pair->tensor == rank % pair->tensor &&
           (own == its || !pst_plan_cuts(plan, tie->stages[0], tie->parameter));
}

struct seen {
    uint32_t n, members[MOST_RANKS], op, stage;
};

static void expect_meeting(const struct pair *pair, uint32_t rank, uint32_t at, struct seen *seen)
{
    const struct pst_instr *instr = &pair->ranks->devices[rank].body[at];
    const uint32_t number = pst_plan_meeting_of(pair->ranks, instr, rank);
    struct seen now = {.op = instr->op, .stage = instr->stage}, *before = &seen[number];
    uint32_t n = 0;

    assert_true(number < pst_plan_n_meetings(pair->ranks) && number < MOST_MEETINGS);
    now.n = pst_plan_members(pair->ranks, instr, rank, now.members);
    for (uint32_t r = 0; r < pair->ranks->n_devices; r++) {
        if (should_meet(pair, instr, rank, r)) {
            assert_int_equal(now.members[n++], r);
        }
    }
    assert_int_equal(now.n, n);
    if (before->n > 0) { /* one number: one meeting */
        assert_memory_equal(before, &now, sizeof now);
    }
    *before = now;
}

/* A meeting of a synchronous plan, whose lists are one section, as the program has it: who, and how
   many bytes. */
static void expect_program_meeting(const struct pair *pair, uint32_t rank, uint32_t at)
{
    const struct pst_instr *instr = &pair->ranks->devices[rank].body[at];
    const struct pst_program_meeting *meeting = pair->programs[rank]->lists[at].meeting;
    const struct pst_plan_stage *stage = &pair->ranks->stages[instr->stage];
    const struct pst_meet_bytes expected =
        pst_plan_meet_bytes(pair->ranks, pair->rig.graph, instr, rank);
    uint64_t bytes = 0;

    if (instr->op == PST_I_NORM ||
        (instr->op != PST_I_TIE && instr->op != PST_I_MERGE && pst_plan_replicas(stage) == 1)) {
        assert_null(meeting);
        return;
    }
    for (uint32_t i = 0; i < meeting->n_parts; i++) {
        bytes += meeting->parts[i].bytes;
    }
    assert_int_equal(bytes, instr->op == PST_I_GATHER ? expected.copied : expected.added);
    if (instr->op == PST_I_MERGE) {
        assert_int_equal(bytes, expected.copied);
        assert_int_equal(meeting->n_members, pair->tensor);
        for (uint32_t m = 0; m < meeting->n_members; m++) {
            assert_int_equal(meeting->members[m], rank / pair->tensor * pair->tensor + m);
        }
        return;
    }
    assert_true(instr->op == PST_I_TIE || meeting->n_members == pst_plan_replicas(stage));
    for (uint32_t m = 0; m < meeting->n_members; m++) {
        assert_int_equal(meeting->members[m] % pair->tensor, rank % pair->tensor);
        assert_true(instr->op == PST_I_TIE || pst_plan_replica(stage, meeting->members[m]) == m);
    }
}

TEST(meetings)
{
    uint32_t n = 0, n_merges = 0;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        FINISHED_BY(close_pair) struct pair pair;
        struct seen *seen = calloc(MOST_MEETINGS, sizeof *seen);

        open_pair(&pair, i);
        for (uint32_t r = 0; r < pair.ranks->n_devices; r++) {
            for (uint32_t at = 0; at < pair.ranks->devices[r].n_instrs; at++) {
                const uint8_t op = pair.ranks->devices[r].body[at].op;

                if (op != PST_I_REDUCE && op != PST_I_GATHER && op != PST_I_TIE &&
                    op != PST_I_NORM && op != PST_I_MERGE) {
                    continue;
                }
                expect_meeting(&pair, r, at, seen);
                n++;
                n_merges += op == PST_I_MERGE;
                if (!pair.ranks->asynchronous) {
                    expect_program_meeting(&pair, r, at);
                }
            }
        }
        free(seen);
    }
    assert_true(n > 1000 && n_merges > 100);
}

/* Without pieces a number for each parameter, of a split one for each part; then the loss, or with
   several replicas that of each sample. */
TEST(bytes_of_norm)
{
    const struct pst_instr norm = {.op = PST_I_NORM};

    for (uint32_t i = 0; i < ROUNDS; i++) {
        FINISHED_BY(close_pair) struct pair pair;
        uint64_t values = 0;

        open_pair(&pair, i);
        for (uint32_t p = 0; p < pair.rig.graph->n_params; p++) {
            values += pair.rig.graph->params[p].box.parts > 1 ? pair.tensor : 1;
        }
        for (uint32_t s = 0; s < pair.ranks->n_stages; s++) {
            const struct pst_plan_stage *stage = &pair.ranks->stages[s];

            if (pst_plan_node(stage, pair.rig.graph->tensors[pair.rig.graph->loss].producer) !=
                PST_NONE) {
                values += stage->n_ranks > pair.tensor ? pair.ranks->step_batch : 1;
            }
        }
        if (pair.ranks->zero == 0) {
            assert_int_equal(pst_plan_meet_bytes(pair.ranks, pair.rig.graph, &norm, 0).added /
                                 sizeof(double),
                             values);
        }
    }
}
