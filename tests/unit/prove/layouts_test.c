/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of parts with one thing changed, everywhere: what an operator reads, what a conversion is,
 * attributes, shapes, boxes. None of them computes the model, and each is refused.
 */
#include "prove/internal.h"
#include "unit/prove/parts_rig.h"

static struct pst_check_report report;
static uint32_t n_mutants;

static bool is_legal(const struct pst_graph *graph)
{
    struct pst_check check = {.graph = graph, .report = &report};

    memset(&report, 0, sizeof report);
    pst_check_layouts(&check);
    pst_arena_finish(&check.arena);
    return report.n_violations == 0;
}

static void expect_refused(const struct pst_graph *graph, const char *what, const char *name)
{
    n_mutants++;
    if (is_legal(graph)) {
        fail_msg("%s of %s is another one, and legal", what, name);
    }
    assert_int_equal(strncmp(report.violations[0].rule, "SPLIT", 5), 0);
}

/* --- what is read ------------------------------------------------------------------------------*/

static void change_inputs(const struct pst_graph *graph, const struct pst_op *op)
{
    for (uint32_t i = 0; i < op->n_in; i++) {
        uint32_t *in = (uint32_t *)&op->in[i], kept = *in;

        for (uint32_t t = 0; t < graph->n_tensors && t < op->out[0]; t++) {
            *in = t;
            if (t != kept) {
                expect_refused(graph, "an input", op->name);
            }
        }
        *in = kept;
    }
}

static void change_params(const struct pst_graph *graph, const struct pst_op *op)
{
    for (uint32_t i = 0; i < op->n_param; i++) {
        uint32_t *param = (uint32_t *)&op->param[i], kept = *param;

        for (uint32_t p = 0; p < graph->n_params; p++) {
            *param = p;
            if (p != kept) {
                expect_refused(graph, "a parameter", op->name);
            }
        }
        if (kept != PST_NONE) {
            *param = PST_NONE;
            expect_refused(graph, "a parameter", op->name);
        }
        *param = kept;
    }
}

/* --- what an operator is -----------------------------------------------------------------------*/

/* What puts columns of queries, keys and values in order before an exchange. */
static void change_columns(const struct pst_graph *graph, struct pst_op *op)
{
    const struct pst_op kept = *op;

    if (op->kind == PST_OP_CONCAT) {
        op->axis = 1;
        expect_refused(graph, "the axis", op->name);
        *op = kept;
        op->n_in--; /* fewer columns than an exchange has */
        expect_refused(graph, "the number of inputs", op->name);
        *op = kept;
    }
    if (op->kind == PST_OP_STRIDED && op->form->rank == 2) {
        int64_t *start = (int64_t *)&op->form->start[1];
        const int64_t place = *start;

        *start += place > 0 ? -1 : 1;
        expect_refused(graph, "the columns", op->name);
        *start = place;
    }
}

static void change_attributes(const struct pst_graph *graph, struct pst_op *op)
{
    const struct pst_op kept = *op;

    op->partial ^= 1;
    expect_refused(graph, "which gradients are partial", op->name);
    *op = kept;
    op->n_out++;
    expect_refused(graph, "the number of results", op->name);
    *op = kept;
    if (op->kind == PST_OP_CONVERT) {
        for (uint32_t convert = 0; convert <= PST_CONVERTS; convert++) {
            op->convert = convert;
            if (convert != kept.convert) {
                expect_refused(graph, "the kind", op->name);
            }
        }
        *op = kept;
        op->parts++;
        expect_refused(graph, "the number of parts", op->name);
        *op = kept;
        return;
    }
    if (op->classes > 0) {
        op->classes--;
        expect_refused(graph, "the number of classes", op->name);
        *op = kept;
        op->classes++; /* padding counts */
        expect_refused(graph, "the number of classes", op->name);
        *op = kept;
        op->classes = 0;
        expect_refused(graph, "the number of classes", op->name);
        *op = kept;
        op->parts++;
        expect_refused(graph, "the number of parts", op->name);
        *op = kept;
    }
    op->kind = op->kind == PST_OP_ADD ? PST_OP_DROPOUT : PST_OP_ADD;
    expect_refused(graph, "the kind", op->name);
    *op = kept;
    if (strchr(op->name, ':') != NULL) {
        return;
    }
    op->row++;
    expect_refused(graph, "where its elements are", op->name);
    *op = kept;
    op->heads++;
    expect_refused(graph, "the number of heads", op->name);
    *op = kept;
    op->act++;
    expect_refused(graph, "the function", op->name);
    *op = kept;
    op->transposed = !op->transposed;
    expect_refused(graph, "the order of axes", op->name);
    *op = kept;
    op->salt++;
    expect_refused(graph, "the stream", op->name);
    *op = kept;
    op->eps += 1;
    expect_refused(graph, "eps", op->name);
    *op = kept;
}

/* A conversion meets all parts that share the operator that it serves, and what has not yet come
   out of it, or has no bias yet, is not read by others. */
static void change_degree(const struct pst_graph *graph, uint32_t v)
{
    const char *name = graph->ops[v].name;
    uint16_t *degree = (uint16_t *)&graph->degree_of[graph->op_of[v]], kept = *degree;
    uint32_t *of = (uint32_t *)&graph->op_of[v], owner = *of;

    if (strchr(name, ':') == NULL) {
        return;
    }
    for (uint32_t parts = 0; parts <= graph->parts + 1; parts++) {
        *degree = (uint16_t)parts;
        if (parts != kept) {
            expect_refused(graph, "the degree", name);
        }
    }
    *degree = kept;
    for (uint32_t other = 0; other < graph->whole->n_ops; other++) {
        *of = other;
        if (graph->degree_of[other] != kept) {
            expect_refused(graph, "the degree", name);
        }
    }
    *of = owner;
}

static void change_owner(const struct pst_graph *graph, uint32_t v)
{
    uint32_t *of = (uint32_t *)&graph->op_of[v], kept = *of;

    if (strchr(graph->ops[v].name, ':') == NULL) {
        *of = (kept + 1) % graph->whole->n_ops;
        expect_refused(graph, "the whole", graph->ops[v].name);
        *of = kept;
    }
}

/* --- shapes ------------------------------------------------------------------------------------*/

static void change_tensor(const struct pst_graph *graph, struct pst_tensor *tensor)
{
    for (uint32_t a = 0; a < tensor->rank; a++) {
        tensor->dims[a] *= 2;
        expect_refused(graph, "an axis", tensor->name);
        tensor->dims[a] /= 2;
    }
    tensor->elems++;
    expect_refused(graph, "the size", tensor->name);
    tensor->elems--;
    tensor->dtype ^= 1;
    expect_refused(graph, "the type", tensor->name);
    tensor->dtype ^= 1;
    if (tensor->role == PST_ROLE_AUX) {
        tensor->role = PST_ROLE_ACTIVATION;
        expect_refused(graph, "the role", tensor->name);
        tensor->role = PST_ROLE_AUX;
        tensor->needs_grad = true;
        expect_refused(graph, "the gradient", tensor->name);
        tensor->needs_grad = false;
    }
}

static void change_box(const struct pst_graph *graph, struct pst_parameter *p)
{
    const struct pst_parameter kept = *p;

    p->dims[0] *= 2;
    expect_refused(graph, "an axis", p->name);
    *p = kept;
    p->decay = !p->decay;
    expect_refused(graph, "the decay", p->name);
    *p = kept;
    if (p->box.parts < 2) {
        p->box = (struct pst_box){graph->parts, 0, 1, {p->dims[0]}, 0};
        p->dims[0] /= graph->parts;
        p->elems /= graph->parts;
        expect_refused(graph, "the box", p->name);
        *p = kept;
        return;
    }
    p->box.padding++;
    expect_refused(graph, "the padding", p->name);
    *p = kept;
    p->box.padding += graph->parts;
    expect_refused(graph, "the padding", p->name);
    *p = kept;
    if (p->box.padding > 0) {
        p->box.padding = 0;
        expect_refused(graph, "the padding", p->name);
        *p = kept;
        p->box = (struct pst_box){0}; /* whole, where its uses have parts of it */
        p->dims[kept.box.axis] = kept.box.sections[0];
        p->elems = p->elems / kept.dims[kept.box.axis] * kept.box.sections[0];
        expect_refused(graph, "the box", p->name);
        *p = kept;
    }
    p->box.axis ^= 1;
    expect_refused(graph, "the axis of the box", p->name);
    *p = kept;
    p->box.parts++;
    expect_refused(graph, "the number of parts", p->name);
    *p = kept;
    p->box.n_sections++;
    expect_refused(graph, "the sections", p->name);
    *p = kept;
    p->box.sections[0] += graph->parts;
    expect_refused(graph, "a section", p->name);
    *p = kept;
    if (p->box.n_sections > 1) { /* equally many elements, in other places */
        p->box.sections[0] += graph->parts;
        p->box.sections[1] -= graph->parts;
        expect_refused(graph, "the sections", p->name);
        *p = kept;
    } else if (p->box.sections[0] > graph->parts) {
        p->box.n_sections = 2;
        p->box.sections[0] -= graph->parts;
        p->box.sections[1] = graph->parts;
        expect_refused(graph, "the sections", p->name);
        *p = kept;
    }
}

/* --- models ------------------------------------------------------------------------------------*/

static void check_division(const char *model, const char *settings, const struct pst_division *how)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_graph *graph;

    open_division(&rig, model, settings, how, 1);
    graph = rig.graph;
    if (!is_legal(graph)) {
        fail_msg("%s: %s", report.violations[0].rule, report.violations[0].text);
    }
    n_mutants = 0;
    for (uint32_t v = 0; v < graph->n_ops; v++) {
        change_inputs(graph, &graph->ops[v]);
        change_params(graph, &graph->ops[v]);
        change_attributes(graph, &graph->ops[v]);
        change_columns(graph, &graph->ops[v]);
        change_owner(graph, v);
        if (graph->degree_of != NULL) {
            change_degree(graph, v);
        }
    }
    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        change_tensor(graph, &graph->tensors[t]);
    }
    for (uint32_t p = 0; p < graph->n_params; p++) {
        change_box(graph, &graph->params[p]);
    }
    assert_true(is_legal(graph));
    print_message("%s: %u mutants\n", model, n_mutants);
}

static void check_model(const char *model, const char *settings, bool sequence)
{
    check_division(model, settings, &(struct pst_division){.parts = 2, .sequence = sequence});
}

TEST(gpt)
{
    check_model("gpt", GPT, false);
}

/* A table that parts divide. */
TEST(even_vocabulary)
{
    check_model("gpt", "layers=1 dim=16 heads=4 context=8 vocab=12", false);
}

/* Cross-entropy that reads what one part says of its classes, as if there were no others. */
TEST(numbers_that_stay)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_op *loss;

    open_parts(&rig, "gpt", GPT, 2, false, 1);
    loss = &rig.graph->ops[rig.graph->tensors[rig.graph->loss].producer];
    ((uint32_t *)loss->in)[2] =
        rig.graph->ops[pst_names_find(&rig.graph->op_names, "loss:part")].out[0];
    expect_refused(rig.graph, "an input", loss->name);
    assert_string_equal(report.violations[0].rule, "SPLIT2");
    assert_non_null(strstr(report.violations[0].text, "is not what all parts say of lm_head"));
}

/* Tokens take the place of targets, so that the last operator reads the first tensor: no other one
   passes for it, those included that an operator keeps for itself. */
TEST(what_operators_keep)
{
    for (uint32_t sequence = 0; sequence < 2; sequence++) {
        FINISHED_BY(rig_close) struct rig rig;
        const struct pst_graph *graph;
        struct pst_op *loss;

        open_parts(&rig, "gpt", GPT, 2, sequence != 0, 1);
        graph = rig.graph;
        loss = &rig.graph->ops[graph->tensors[graph->loss].producer];
        ((uint32_t *)rig.graph->ops[pst_names_find(&graph->op_names, "loss:part")].in)[1] = 0;
        ((uint32_t *)loss->in)[1] = 0;
        ((uint32_t *)graph->whole->ops[graph->op_of[loss - graph->ops]].in)[1] = 0;
        assert_true(is_legal(graph));
        change_inputs(graph, loss);
    }
}

TEST(llama)
{
    check_model("llama", LLAMA " vocab=8192 qkv_bias=true", false);
}

TEST(t5)
{
    check_model("t5", "layers=1 dim=16 heads=2 head_dim=8 ff=24 context=8 vocab=11", false);
}

TEST(rows)
{
    check_model("gpt", GPT " dropout=0.1", true);
    check_model("llama", LLAMA " qk_norm=true", true);
    check_model("llama", LLAMA " experts=4 experts_per_token=2", true);
}

/* Linear layers by tokens, too: each part has all of their matrices, and partial gradients. */
TEST(rows_everywhere)
{
    const struct pst_division how = {.parts = 2, .ways = PST_WAYS_ROWS};

    check_division("gpt", GPT " dropout=0.1", &how);
    check_division("llama", LLAMA " qk_norm=true qkv_bias=true", &how);
    check_division("llama", LLAMA " experts=4 experts_per_token=2", &how);
}

/* Attention between rows has heads of all tokens. */
TEST(exchanges)
{
    const struct pst_division how = {.parts = 2, .ways = PST_WAYS_ULYSSES};

    check_division("gpt", GPT " dropout=0.1", &how);
    check_division("llama", "layers=1 dim=32 heads=4 context=8 vocab=11 ff=24 qk_norm=true", &how);
    check_division("llama", LLAMA " qk_norm=true", &how);
}

/* --- degrees -----------------------------------------------------------------------------------*/

/* The first operators of a model, up to each name, have a degree each, the rest the last. */
static void degrees_up_to(const char *model, const char *settings, const char *const *names,
                          const uint16_t *degrees, uint16_t *degree_of)
{
    FINISHED_BY(rig_close) struct rig rig;
    uint32_t stage = 0;

    rig_open(&rig, model, settings, 1);
    for (uint32_t v = 0; v < rig.graph->n_ops; v++) {
        degree_of[v] = degrees[stage];
        stage += names[stage] != NULL && strcmp(rig.graph->ops[v].name, names[stage]) == 0;
    }
    assert_null(names[stage]);
}

static void check_stages(const char *model, const char *settings, const char *const *names,
                         const uint16_t *degrees, bool sequence)
{
    uint16_t degree_of[64];

    degrees_up_to(model, settings, names, degrees, degree_of);
    check_division(model, settings,
                   &(struct pst_division){.degree_of = degree_of, .sequence = sequence});
}

TEST(degrees)
{
    static const char *const gpt[] = {"h.0.mlp.add", "h.1.mlp.add", NULL};
    static const char *const llama[] = {"embed_tokens", "layers.0.self_attn.add",
                                        "layers.1.self_attn", NULL};

    check_stages("gpt", GPT " tied=false", gpt, (uint16_t[]){2, 4, 2}, false);
    check_stages("gpt", GPT " tied=false", gpt, (uint16_t[]){4, 1, 2}, true);
    check_stages("llama", LLAMA " qk_norm=true", llama, (uint16_t[]){1, 2, 1, 2}, false);
    check_stages("llama", LLAMA " qkv_bias=true", llama, (uint16_t[]){1, 2, 4, 2}, true);
}

/* What one degree makes is read by the other as it is on the way to others of its own. */
TEST(what_crosses_is_whole)
{
    static const struct {
        const char *op, *reads, *rule, *told;
    } faults[] = {
        /* the fan that is left out: the gradient of ln_1 would be a part of it on each part */
        {"h.1.attn.c_attn", "h.1.ln_1", "SPLIT3", "is whole; expected fanned"},
        /* fanned by the parts before */
        {"h.1.ln_1", "h.0.ln_2:fan", "SPLIT3", "is fanned over 2 parts, and read by 4"},
        {"h.1.ln_1", "h.0.mlp.c_proj", "SPLIT2", "is partial over 2 parts, and read by 4"},
        {"h.1.ln_1", "h.0.mlp.c_fc", "SPLIT2", "is split over 2 parts, and read by 4"},
        {"h.1.ln_1", "h.0.mlp.c_proj:sum", "SPLIT2", "is without its bias over 2 parts"},
    };
    static const char *const names[] = {"h.0.mlp.add", NULL};
    FINISHED_BY(rig_close) struct rig rig;
    uint16_t degree_of[64];

    degrees_up_to("gpt", GPT " tied=false", names, (uint16_t[]){2, 4}, degree_of);
    open_division(&rig, "gpt", GPT " tied=false", &(struct pst_division){.degree_of = degree_of},
                  1);
    assert_true(is_legal(rig.graph));
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const uint32_t at = pst_names_find(&rig.graph->op_names, faults[i].op);
        const uint32_t from = pst_names_find(&rig.graph->op_names, faults[i].reads);
        uint32_t *in = (uint32_t *)rig.graph->ops[at].in, kept = *in;

        assert_true(at != PST_NONE && from != PST_NONE);
        *in = rig.graph->ops[from].out[0];
        expect_refused(rig.graph, "what is read", faults[i].op);
        *in = kept;
        assert_string_equal(report.violations[0].rule, faults[i].rule);
        if (strstr(report.violations[0].text, faults[i].told) == NULL) {
            fail_msg("%s, not %s", report.violations[0].text, faults[i].told);
        }
    }
}

/* Every fourth operator is whole, and what reads it and what it reads is as it would be. */
TEST(ways_by_name)
{
    static uint8_t asked[64];
    const struct pst_division how = {.parts = 2, .sequence = true, .asked = asked};

    for (size_t v = 1; v < sizeof asked; v += 4) {
        asked[v] = PST_WAY_WHOLE;
    }
    check_division("gpt", GPT, &how);
}
