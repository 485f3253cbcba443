/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's answers about stages whose operators are shared, where a partitioner chooses degrees:
 * times beside the cost model of the graph of a part, bytes beside those of a job that has the
 * degree as its one number, and degrees that cannot be had.
 */
#include "job_rig.h"

#include <math.h>

#include "test.h"

#include "graph/split.h"
#include "planner/state.h"

static const char job[] = "[model]\nuse = \"gpt\"\nlayers = 2\ndim = 24\nheads = 4\nvocab = 64\n"
                          "context = 8\ndropout = 0.1\n[data]\nkind = \"synthetic\"\n"
                          "[train]\nbatch = 16\nmicrobatch = 4\ndegrees = [1, 2]\n"
                          "[cluster]\ndevices = 4\nflops = 80e9\n[parallel]\ntensor = %s\n"
                          "[partitioner]\nuse = \"chain-dp\"\n[scheduler]\nuse = \"1f1b\"\n"
                          "[[memopt]]\nuse = \"%s\"\n";

struct part {
    struct job_rig rig;
    uint32_t tensor, n_asked; /* of the last call; calls */
    pst_status refuse[8];     /* by degree */
};

static void open_rig(struct job_rig *rig, const char *tensors, const char *memopt)
{
    char toml[2048];

    snprintf(toml, sizeof toml, job, tensors, memopt);
    assert_ok(job_rig_init(rig, toml), &rig->err);
}

/* Makes of a rig one of groups. */
static void divide_rig(struct job_rig *rig, uint32_t tensor)
{
    const struct pst_division how = {.parts = tensor};

    assert_ok(pst_graph_split(rig->graph, &how, &rig->graph, &rig->err), &rig->err);
    rig->cost.graph = rig->graph;
    rig->cluster.devices /= tensor;
}

static pst_status divide(void *divider, uint32_t tensor, struct pst_search *ret_search,
                         struct pst_error *err)
{
    struct part *part = divider;

    part->tensor = tensor;
    part->n_asked++;
    if (part->refuse[tensor] != PST_OK) {
        return pst_fail(err, part->refuse[tensor], "config.value", "it cannot have %u parts",
                        tensor);
    }
    divide_rig(&part->rig, tensor);
    ret_search->graph = part->rig.graph;
    ret_search->cluster = &part->rig.cluster;
    ret_search->cost = &part->rig.cost;
    return PST_OK;
}

/* A planner that is asked. */
struct asked {
    struct pst_search search;
    struct pst_planner planner;
    struct pst_partition_in in;
    struct pst_arena arena;
    const struct pst_host *host;
    const struct pst_ask *ask;
};

static void open_asked(struct asked *a, struct job_rig *rig, struct part *part)
{
    struct pst_error err;

    pst_search_begin(&rig->job, rig->graph, &rig->cluster, &rig->cost, NULL, NULL, &a->search);
    a->search.ways = true;
    a->search.divide = divide;
    a->search.divider = part;
    assert_ok(pst_planner_open(&a->planner, &a->search, &err), &err);
    a->arena = (struct pst_arena){0};
    pst_planner_state(&a->planner, &a->arena, &a->in);
    a->planner.asked = &a->in;
    a->host = &a->planner.strategies.partitioner->host;
    a->ask = a->host->get_extension(a->host, PST_ASK);
}

static void close_asked(struct asked *a)
{
    struct pst_planned none = {.plan = NULL};

    pst_planner_finish(&a->planner);
    pst_arena_finish(&a->arena);
    pst_search_end(&a->search, &none);
}

static struct pst_stage_question question_about(const uint32_t *nodes, uint32_t n, uint32_t tensor)
{
    return (struct pst_stage_question){.size = sizeof(struct pst_stage_question),
                                       .nodes = nodes,
                                       .n_nodes = n,
                                       .stage = 1,
                                       .n_stages = 2,
                                       .microbatch_size = 4,
                                       .n_ranks = 2,
                                       .in_flight = 2,
                                       .weight_versions = 1,
                                       .capacity_bytes = 100000,
                                       .tensor = tensor};
}

/* F, B and W of operators of a part that serve [first, end) of the whole; and which those are. */
static uint64_t sum_of(const struct job_rig *rig, uint32_t first, uint32_t end, uint32_t *nodes,
                       uint32_t *ret_n)
{
    uint64_t sum = 0;

    *ret_n = 0;
    for (uint32_t o = 0; o < rig->graph->n_ops; o++) {
        struct pst_times times;

        if (rig->graph->op_of[o] >= first && rig->graph->op_of[o] < end) {
            pst_cost_op(&rig->cost, o, 2, &times);
            sum += times.forward_ns + times.backward_input_ns + times.backward_weight_ns;
            nodes[(*ret_n)++] = o;
        }
    }
    return sum;
}

/* Results of 2 samples that one of two parts has half of, and that cross a border of [first, end):
   each part sends its half to the other, which takes a latency and the time of these bytes. */
static uint64_t border_of(const struct job_rig *rig, uint32_t first, uint32_t end)
{
    const struct pst_graph *graph = rig->graph, *whole = graph->whole;
    uint64_t sum = 0;

    for (uint32_t o = 0; o < graph->n_ops; o++) {
        const struct pst_tensor *own = &graph->tensors[graph->ops[o].out[0]];
        const uint64_t elems = whole->tensors[whole->ops[graph->op_of[o]].out[0]].elems;
        const bool is_inside = graph->op_of[o] >= first && graph->op_of[o] < end;
        bool crosses = false;

        for (uint32_t i = 0; i < own->n_consumers; i++) {
            const uint32_t reader = graph->op_of[own->consumers[i]];

            crosses |= is_inside != (reader >= first && reader < end);
        }
        if (crosses && own->elems < elems) {
            sum +=
                rig->cluster.link_latency + (uint64_t)ceil((double)(elems * sizeof(float)) * 1e9 /
                                                           (double)rig->cluster.link_bandwidth);
        }
    }
    return sum;
}

static bool has_split(const struct pst_graph *graph, const uint32_t *nodes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < graph->ops[nodes[i]].n_param; k++) {
            const uint32_t p = graph->ops[nodes[i]].param[k];

            if (p != PST_NONE && graph->params[p].box.parts == 2) {
                return true;
            }
        }
    }
    return false;
}

TEST(test_shared_stages)
{
    FINISHED_BY(job_rig_finish) struct job_rig whole, number;
    struct part part = {.tensor = 0};
    uint32_t all[64], fitting = 0, not_fitting = 0, bordered = 0;
    struct asked list, one;

    open_rig(&whole, "[1, 2]", "none");
    open_rig(&part.rig, "[1, 2]", "none");
    open_rig(&number, "2", "none");
    divide_rig(&number, 2);
    open_asked(&list, &whole, &part);
    open_asked(&one, &number, NULL);
    assert_true(whole.graph->n_ops <= 64);
    for (uint32_t v = 0; v < whole.graph->n_ops; v++) {
        all[v] = v;
    }
    for (uint32_t first = 0; first < whole.graph->n_ops; first++) {
        for (uint32_t end = first + 1; end <= whole.graph->n_ops; end++) {
            struct pst_stage_question q = question_about(all + first, end - first, 2);
            struct pst_stage_price price = {.size = sizeof price}, other = price;
            uint32_t nodes[256], n;
            uint64_t sum, bound = 0;

            assert_int_equal(list.ask->price(list.host, &q, &price), PST_OK);
            assert_int_equal(list.ask->bound(list.host, &q, &bound), PST_OK);
            sum = sum_of(&part.rig, first, end, nodes, &n);
            assert_int_equal(price.period_ns, sum + border_of(&part.rig, first, end));
            assert_int_equal(bound, sum);
            bordered += price.period_ns > sum;
            q = question_about(nodes, n, 0);
            assert_int_equal(one.ask->price(one.host, &q, &other), PST_OK);
            assert_int_equal(other.period_ns, sum);
            assert_int_equal(price.peak_bytes, other.peak_bytes);
            /* how operators are divided whose tensors cross in parts depends on the neighbours */
            assert_int_equal(price.fits, other.fits && has_split(part.rig.graph, nodes, n) &&
                                             price.period_ns == sum);
            fitting += price.fits != 0;
            not_fitting += price.fits == 0;
        }
    }
    assert_int_equal(part.n_asked, 1);
    assert_true(fitting > 10 && not_fitting > 10 && bordered > 10);
    close_asked(&one);
    close_asked(&list);
    job_rig_finish(&part.rig);
}

/* Without a degree, with 1, and in a struct of 1.6, the whole graph answers. */
TEST(test_whole_stages)
{
    FINISHED_BY(job_rig_finish) struct job_rig whole;
    const uint32_t nodes[] = {0, 1, 2, 3};
    struct part part = {.tensor = 0};
    struct pst_stage_price prices[3];
    struct asked list;

    open_rig(&whole, "[1, 2]", "full");
    open_asked(&list, &whole, &part);
    for (uint32_t i = 0; i < 3; i++) {
        struct pst_stage_question q = question_about(nodes, 4, i == 2 ? 2 : i);

        q.size = i == 2 ? offsetof(struct pst_stage_question, tensor) : sizeof q;
        prices[i] = (struct pst_stage_price){.size = sizeof prices[i]};
        assert_int_equal(list.ask->price(list.host, &q, &prices[i]), PST_OK);
        assert_int_equal(prices[i].period_ns, prices[0].period_ns);
        assert_int_equal(prices[i].peak_bytes, prices[0].peak_bytes);
    }
    assert_int_equal(part.n_asked, 0);
    close_asked(&list);
}

TEST(test_degrees_that_cannot_be_had)
{
    FINISHED_BY(job_rig_finish) struct job_rig whole;
    const uint32_t nodes[] = {0, 1, 2, 3};
    struct part part = {.refuse = {[2] = PST_ERR_CONFIG, [4] = PST_ERR_IO, [1] = PST_OK}};
    struct pst_stage_price price = {.size = sizeof price};
    struct pst_stage_question q = question_about(nodes, 4, 2);
    struct asked list;
    uint64_t bound = 0;

    open_rig(&whole, "[1, 2, 4]", "none");
    open_asked(&list, &whole, &part);
    for (uint32_t i = 0; i < 2; i++) { /* it is asked for once, and forgone */
        assert_int_equal(list.ask->price(list.host, &q, &price), PST_OK);
        assert_int_equal(price.fits, 0);
        assert_int_equal(list.ask->bound(list.host, &q, &bound), PST_OK);
        assert_true(bound == UINT64_MAX && price.period_ns == UINT64_MAX);
    }
    assert_int_equal(part.n_asked, 1);
    q.tensor = 4; /* a file that cannot be read is no answer, however often it is asked for */
    for (uint32_t i = 0; i < 2; i++) {
        memset(&list.planner.pending, 0, sizeof list.planner.pending);
        assert_int_equal(list.ask->price(list.host, &q, &price), PST_ERR_IO);
        assert_string_equal(list.planner.pending.message, "it cannot have 4 parts");
    }
    q.tensor = 3;
    assert_int_equal(list.ask->price(list.host, &q, &price), PST_ERR_BUG);
    close_asked(&list);
    job_rig_finish(&whole);
    open_rig(&whole, "[2, 1]", "none"); /* the usual one is what the job asks for */
    open_asked(&list, &whole, &part);
    q.tensor = 2;
    assert_int_equal(list.ask->bound(list.host, &q, &bound), PST_ERR_CONFIG);
    assert_string_equal(list.planner.pending.message, "it cannot have 2 parts");
    close_asked(&list);
}

/* The head has the embedding's weights; all other operators stand alone, unless all go together. */
TEST(test_tied_operators)
{
    FINISHED_BY(job_rig_finish) struct job_rig whole;
    uint32_t n_tied = 0;
    struct asked list;

    open_rig(&whole, "[1, 2]", "none");
    for (uint32_t ways = 0; ways < 2; ways++) {
        whole.job.parallel.ways = ways == 0 ? PST_WAYS_AUTO : PST_WAYS_ROWS;
        open_asked(&list, &whole, NULL);
        assert_int_equal(list.in.n_tied, whole.graph->n_ops);
        for (uint32_t v = 0; v < list.in.n_tied; v++) {
            const struct pst_op *op = &whole.graph->ops[v], *first = &whole.graph->ops[0];
            const bool shares = v > 0 && op->n_param > 0 && op->param[0] == first->param[0];

            assert_int_equal(list.in.tied[v], shares || ways == 1 ? 0 : v);
            n_tied += shares && ways == 0;
        }
        close_asked(&list);
    }
    assert_int_equal(n_tied, 1);
}

/* Operators go together over others, too. */
TEST(test_ties_of_ties)
{
    static const uint32_t expected[] = {0, 1, 1, 0, 4, 0};
    const uint32_t late[] = {3, 5}, early[] = {0, 3}, others[] = {1, 2}, alone[] = {4};
    struct pst_parameter params[] = {{.n_users = 2, .users = late},
                                     {.n_users = 2, .users = others},
                                     {.n_users = 2, .users = early},
                                     {.n_users = 1, .users = alone}};
    const struct pst_graph graph = {.n_ops = 6, .n_params = 4, .params = params};
    uint32_t tied[6];

    pst_graph_tie_degrees(&graph, false, tied);
    assert_memory_equal(tied, expected, sizeof tied);
}

/* --- answers that a graph can be divided by ----------------------------------------------------*/

static const char *const models[] = {
    "use = \"gpt\"\nlayers = 3\ndim = 192\nheads = 4\nvocab = 256\ncontext = 32\n",
    "use = \"llama\"\nlayers = 3\ndim = 192\nheads = 4\nkv_heads = 2\nff = 384\ncontext = 32\n",
    "use = \"t5\"\nlayers = 2\ndim = 192\nheads = 4\ncontext = 32\n",
    "use = \"mmt\"\nbranches = 2\nlayers = 1\ndim = 192\nheads = 4\ncontext = 32\n"};

/* Where tokens are divided, too, by degrees that divide their number: of others a stage may have
   none, which only dividing the graph tells. */
static void draw_job(char *toml, size_t size, uint32_t round)
{
    const bool sequence = round % 13 % 2 != 0;
    static const char *const lists[] = {"[1, 2]", "[1, 2, 4]", "[2, 1, 4]", "[1, 2, 3, 6]"};

    snprintf(toml, size,
             "[model]\n%s[data]\nkind = \"synthetic\"\n[train]\nbatch = %u\nmicrobatch = 2\n"
             "degrees = [1, 2]\n[cluster]\ndevices = %u\nflops = 80e9\nlink_bandwidth = %g\n"
             "[parallel]\ntensor = %s\nsequence = %s\n[partitioner]\nuse = \"chain-dp\"\n"
             "[scheduler]\nuse = \"1f1b\"\n[[memopt]]\nuse = \"none\"\n",
             models[round % 4], 2U << round % 5, round % 3 == 0 ? 6 : 12,
             1e8 * (double)(1U << round % 7), lists[round % 11 % (sequence ? 3 : 4)],
             sequence ? "true" : "false");
}

/* A graph for each degree. */
struct parts {
    char toml[2048];
    struct job_rig rigs[8];
};

static pst_status divide_anew(void *divider, uint32_t tensor, struct pst_search *ret_search,
                              struct pst_error *err)
{
    struct parts *parts = divider;
    struct job_rig *rig = &parts->rigs[tensor];
    const struct pst_division how = {.parts = tensor};
    pst_status status = job_rig_init(rig, parts->toml);

    PST_TRY(status, pst_graph_split(rig->graph, &how, &rig->graph, err));
    rig->cost.graph = rig->graph;
    rig->cluster.devices /= tensor;
    ret_search->graph = rig->graph;
    ret_search->cluster = &rig->cluster;
    ret_search->cost = &rig->cost;
    return status;
}

/* Returns true if stages have unlike degrees. The graph divided by all of them can be had. */
static bool divides(struct job_rig *rig, const struct pst_cuts *cuts)
{
    uint16_t degree_of[256] = {0};
    struct pst_division how = {.degree_of = degree_of, .sequence = rig->job.parallel.sequence};
    bool unlike = false;

    for (uint32_t s = 0; s < cuts->n_stages; s++) {
        for (uint32_t i = 0; i < cuts->stages[s].n_nodes; i++) {
            degree_of[cuts->stages[s].nodes[i]] = (uint16_t)cuts->stages[s].tensor;
        }
        unlike = unlike || cuts->stages[s].tensor != cuts->stages[0].tensor;
    }
    if (unlike) {
        assert_ok(pst_graph_split(rig->graph, &how, &rig->graph, &rig->err), &rig->err);
    }
    return unlike;
}

TEST(test_answers_can_be_divided)
{
    enum { ROUNDS = 70 };
    uint32_t unlike = 0;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        static struct parts parts;
        FINISHED_BY(job_rig_finish) struct job_rig rig;
        struct pst_planned none = {.plan = NULL};
        struct pst_arena arena = {0};
        struct pst_search search;
        struct pst_cuts cuts;

        memset(&parts, 0, sizeof parts);
        draw_job(parts.toml, sizeof parts.toml, round);
        assert_ok(job_rig_init(&rig, parts.toml), &rig.err);
        assert_true(rig.graph->n_ops <= 256);
        pst_search_begin(&rig.job, rig.graph, &rig.cluster, &rig.cost, NULL, NULL, &search);
        search.ways = true;
        search.divide = divide_anew;
        search.divider = &parts;
        assert_ok(pst_search_cut(&search, &arena, &cuts, &rig.err), &rig.err);
        pst_search_end(&search, &none);
        unlike += divides(&rig, &cuts);
        pst_arena_finish(&arena);
        for (uint32_t t = 0; t < 8; t++) {
            job_rig_finish(&parts.rigs[t]);
        }
    }
    print_message("%u of %u with unlike degrees\n", unlike, ROUNDS);
    assert_true(unlike > 10);
}
