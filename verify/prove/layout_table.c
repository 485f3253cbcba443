/* SPDX-License-Identifier: Apache-2.0
 *
 * Which layouts go together (Shoeybi et al., "Megatron-LM", 2019, section 3; the four layouts and
 * what turns one into another are those of graph/split.h). What is not in the table is a violation:
 *
 *   kind                reads                         parameters                     makes
 *   linear              fanned                        matrix and bias by outputs     split
 *   linear, no act      split                         matrix by inputs; no bias      partial
 *   attention           split q|k|v, or q and k|v     buckets by heads               split
 *   rotary              split by heads                                               split
 *   glu                 split gate|up                                                split
 *   experts             both fanned                   gate|up columns, rows down     partial
 *   act, add, map       all split alike                                              split
 *   dropout             split, in one section                                        split
 *   qknorm              split by heads                gains, whole: partial          split
 *   norms, add, dropout tokens                        whole: partial                 tokens
 *   linear, glu, act    tokens                        whole: partial                 tokens
 *   map                 all tokens, of one shape                                     tokens
 *   embedding, no bag   whole                         table by rows; no positions    partial
 *   cross-entropy       split logits in one section,                                 whole
 *                       what all parts say of them
 *   all                 whole                         whole                          whole
 *
 * The gradient of a fanned input is partial, as each part has columns of the product of its own;
 * that of a split one is split, and parameters in boxes have the gradients of their boxes. A
 * whole parameter beside split heads or rows of tokens has a partial gradient (pst_op.partial).
 * Places of an axis may be padding only where a table, the layer that makes the logits and
 * cross-entropy have them: none reads it, and its gradients are 0.
 */
#include "prove/layouts.h"

#include <string.h>

static const char *layout_name(uint32_t layout)
{
    static const char *const names[] = {[PST_LAYOUT_WHOLE] = "whole",
                                        [PST_LAYOUT_FANNED] = "fanned",
                                        [PST_LAYOUT_PARTIAL] = "partial",
                                        [PST_LAYOUT_BIAS] = "a bias",
                                        [PST_LAYOUT_NUMBERS] = "numbers of one part's classes",
                                        [PST_LAYOUT_ALL_NUMBERS] = "numbers of all classes",
                                        [PST_LAYOUT_OWN] = "what its operator alone reads",
                                        [PST_LAYOUT_TOKENS] = "split by tokens",
                                        [PST_LAYOUT_PICKED] = "rows, not yet blocks of heads",
                                        [PST_LAYOUT_SLICED] = "rows, not yet blocks of heads",
                                        [PST_LAYOUT_DEALT] = "rows, not yet blocks of heads",
                                        [PST_LAYOUT_PACKED] = "rows in blocks of heads",
                                        [PST_LAYOUT_RETURNED] = "heads of the part's rows",
                                        [PST_LAYOUT_LAID] = "heads of the part's rows",
                                        [PST_LAYOUT_TURNED] = "heads of the part's rows",
                                        [PST_LAYOUT_SPLIT] = "split",
                                        [PST_LAYOUT_STACKED] = "joined, not ordered",
                                        [PST_LAYOUT_APART] = "joined, not ordered",
                                        [PST_LAYOUT_ORDERED] = "joined, not ordered"};
    return names[layout];
}

static const struct pst_split_place *input_of(const struct pst_split_walk *w, uint32_t i)
{
    return &w->places[w->op->in[i]];
}

/* Input i has the values of the whole operator's input in this layout. Whole and fanned differ in
   the gradient alone. */
static void expect_layout(struct pst_split_walk *w, uint32_t i, uint32_t layout)
{
    const struct pst_split_place *x = input_of(w, i);
    const bool same = x->layout <= PST_LAYOUT_FANNED && layout <= PST_LAYOUT_FANNED;
    if (x->no_bias || x->layout == PST_LAYOUT_BIAS) {
        pst_split_fault(w, "SPLIT1", "input %u lacks the bias of its layer", i);
    } else if (x->of != w->of->in[i]) {
        pst_split_fault(w, "SPLIT1", "input %u is not tensor %s", i,
                        w->whole->tensors[w->of->in[i]].name);
    } else if (x->layout != layout && !(same && !w->whole->tensors[x->of].needs_grad)) {
        pst_split_fault(w, same ? "SPLIT3" : "SPLIT2", "input %u, %s, is %s; expected %s", i,
                        w->whole->tensors[x->of].name, layout_name(x->layout), layout_name(layout));
    } else if (x->padding > 0 && w->of->kind != PST_OP_CROSS_ENTROPY) {
        pst_split_fault(w, "SPLIT4", "input %u, %s, has padding, which counts here", i,
                        w->whole->tensors[x->of].name);
    }
}

void pst_split_degrees(struct pst_split_walk *w)
{
    for (uint32_t i = 0; i < w->op->n_in; i++) {
        const struct pst_split_place *x = input_of(w, i);
        if (x->degree == 0 || x->degree == w->parts ||
            (x->layout == PST_LAYOUT_WHOLE && !x->no_bias)) {
            continue;
        }
        pst_split_fault(w, x->layout == PST_LAYOUT_FANNED ? "SPLIT3" : "SPLIT2",
                        "input %u, %s, is %s over %u parts, and read by %u; expected whole", i,
                        w->whole->tensors[x->of].name,
                        x->layout == PST_LAYOUT_WHOLE ? "without its bias" : layout_name(x->layout),
                        x->degree, w->parts);
    }
}

static bool same_sections(uint32_t n, const uint64_t *sections, uint32_t m, const uint64_t *others)
{
    return n == m && memcmp(sections, others, n * sizeof *sections) == 0;
}

static void expect_sections(struct pst_split_walk *w, uint32_t i, uint32_t n,
                            const uint64_t *sections)
{
    const struct pst_split_place *x = input_of(w, i);
    expect_layout(w, i, PST_LAYOUT_SPLIT);
    if (!same_sections(x->n_sections, x->sections, n, sections)) {
        pst_split_fault(w, "SPLIT4", "input %u is not split in the %u sections that it reads", i,
                        n);
    }
}

static void expect_box(struct pst_split_walk *w, uint32_t slot, uint32_t axis, uint32_t n,
                       const uint64_t *sections, uint64_t padding)
{
    const struct pst_parameter *p = pst_split_param(w, slot);
    if (p == NULL) {
        return;
    }
    if (!pst_is_split(p)) {
        pst_split_fault(w, "SPLIT3", "the gradient of %s is partial, as each part has all of it",
                        p->name);
    } else if (p->box.axis != axis || p->box.padding != padding ||
               !same_sections(p->box.n_sections, p->box.sections, n, sections)) {
        pst_split_fault(w, "SPLIT4", "the parts of %s are not the sections that the operator needs",
                        p->name);
    }
}

static void set_split(struct pst_split_place *place, uint32_t n, const uint64_t *sections)
{
    place->layout = PST_LAYOUT_SPLIT;
    place->n_sections = n;
    memcpy(place->sections, sections, n * sizeof *sections);
}

static uint64_t last_axis(const struct pst_split_walk *w, uint32_t tensor)
{
    const struct pst_tensor *of = &w->whole->tensors[tensor];
    return of->rank > 0 ? of->dims[of->rank - 1] : 0;
}

/* --- ways --------------------------------------------------------------------------------------*/

static void expect_whole_params(struct pst_split_walk *w)
{
    for (uint32_t i = 0; i < w->of->n_param || i < w->op->n_param; i++) {
        const struct pst_parameter *p = pst_split_param(w, i);
        if (p != NULL && pst_is_split(p)) {
            pst_split_fault(w, "SPLIT4", "reads all of %s, of which a part has a part", p->name);
        }
    }
}

static void whole_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    for (uint32_t i = 0; i < w->of->n_in; i++) {
        expect_layout(w, i, PST_LAYOUT_WHOLE);
    }
    expect_whole_params(w);
    place->layout = PST_LAYOUT_WHOLE;
}

/* Do all inputs have the shape of the result? */
static bool has_one_shape(const struct pst_split_walk *w)
{
    const struct pst_tensor *result = &w->whole->tensors[w->of->out[0]];
    for (uint32_t i = 0; i < w->of->n_in; i++) {
        const struct pst_tensor *input = &w->whole->tensors[w->of->in[i]];
        if (input->rank != result->rank ||
            memcmp(input->dims, result->dims, result->rank * sizeof *input->dims) != 0) {
            return false;
        }
    }
    return true;
}

/* Row by row. */
static void tokens_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    for (uint32_t i = 0; i < w->of->n_in; i++) {
        expect_layout(w, i, PST_LAYOUT_TOKENS);
    }
    if (w->of->kind == PST_OP_MAP && !has_one_shape(w)) {
        pst_split_fault(w, "SPLIT2", "its inputs are split by tokens, but not of one shape");
    }
    expect_whole_params(w);
    place->layout = PST_LAYOUT_TOKENS;
    place->partial = true;
}

static void column_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    const struct pst_box *box = &w->graph->params[w->op->param[0]].box;
    expect_layout(w, 0, PST_LAYOUT_FANNED);
    expect_box(w, 1, 0, box->n_sections, box->sections, box->padding);
    set_split(place, box->n_sections, box->sections);
    place->padding = box->padding;
}

static void row_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    const struct pst_box *box = &w->graph->params[w->op->param[0]].box;
    expect_sections(w, 0, box->n_sections, box->sections);
    if (box->padding > 0) {
        pst_split_fault(w, "SPLIT4",
                        "its matrix has rows that are padding, and its input has none");
    }
    if (w->of->act != PST_ACT_NONE) {
        pst_split_fault(w, "SPLIT2", "its activation function is not of the sum over the parts");
    }
    if (w->op->n_param > 1 && w->op->param[1] != PST_NONE) {
        pst_split_fault(w, "SPLIT1", "each part adds the bias, which then counts %u times",
                        w->parts);
    }
    place->layout = PST_LAYOUT_PARTIAL;
    place->no_bias = w->of->n_param > 1 && w->of->param[1] != PST_NONE;
}

static void linear_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    const struct pst_parameter *matrix = pst_split_param(w, 0);
    const uint32_t out_axis = w->of->transposed ? 0 : 1;
    const bool whole = matrix == NULL || !pst_is_split(matrix);
    if (whole && input_of(w, 0)->layout == PST_LAYOUT_TOKENS) {
        tokens_way(w, place);
    } else if (whole) {
        whole_way(w, place);
    } else if (matrix->box.axis == out_axis) {
        column_way(w, place);
    } else {
        row_way(w, place);
    }
}

/* Heads in a row in each section. A part's queries read its own keys, as both are divided evenly.
 */
static void attention_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    const uint64_t kv_heads = w->of->kv_heads > 0 ? w->of->kv_heads : w->of->heads;
    const uint64_t width = last_axis(w, w->of->out[0]), keys = width / w->of->heads * kv_heads;
    const uint64_t packed[3] = {width, keys, keys}, heads = w->of->heads;
    if (heads % w->parts != 0 || kv_heads % w->parts != 0) {
        pst_split_fault(w, "SPLIT2", "%u parts do not divide its heads", w->parts);
        return;
    }
    if (w->of->n_in == 1) {
        expect_sections(w, 0, 3, packed);
    } else {
        expect_sections(w, 0, 1, packed);
        expect_sections(w, 1, 2, &packed[1]);
    }
    expect_box(w, 0, 1, 1, &heads, 0);
    set_split(place, 1, &width);
}

/* The heads that are turned, or normalised, are whole sections, and each part has whole heads. */
static void heads_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    const struct pst_split_place *x = input_of(w, 0);
    const bool turns = w->of->kind == PST_OP_ROTARY;
    const uint64_t kv_heads = w->of->kv_heads > 0 ? w->of->kv_heads : w->of->heads;
    const uint64_t depth = turns ? w->of->head_dim : w->whole->params[w->of->param[0]].dims[0];
    uint64_t turned = depth * (turns ? w->of->heads : w->of->heads + kv_heads);
    expect_whole_params(w);
    place->partial = !turns;
    expect_layout(w, 0, PST_LAYOUT_SPLIT);
    for (uint32_t i = 0; turned > 0 && i < x->n_sections; i++) {
        if (x->sections[i] > turned || x->sections[i] % (depth * w->parts) != 0) {
            break;
        }
        turned -= x->sections[i];
    }
    if (turned != 0) {
        pst_split_fault(w, "SPLIT4", "the sections of its input are not rows of whole heads");
    }
    set_split(place, x->n_sections, x->sections);
}

static void glu_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    const uint64_t half = last_axis(w, w->of->in[0]) / 2, sections[2] = {half, half};
    expect_sections(w, 0, 2, sections);
    set_split(place, 1, &half);
}

/* By element: as all inputs are split alike, so is the result. */
static void element_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    const struct pst_split_place *x = input_of(w, 0);
    for (uint32_t i = 0; i < w->of->n_in; i++) {
        expect_sections(w, i, x->n_sections, x->sections);
    }
    if (!has_one_shape(w)) {
        pst_split_fault(w, "SPLIT2", "its inputs are split, but not of one shape");
    }
    if (w->of->p != 0 && (w->of->kind != PST_OP_DROPOUT || x->n_sections != 1)) {
        pst_split_fault(w, "SPLIT2", "its dropout is drawn by elements of the whole");
    }
    set_split(place, x->n_sections, x->sections);
}

/* A part computes zeros for tokens whose rows are on other parts. */
static void table_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    const struct pst_parameter *table = &w->graph->params[w->op->param[0]];
    const uint64_t rows = w->whole->params[w->of->param[0]].dims[0];
    expect_layout(w, 0, PST_LAYOUT_WHOLE);
    expect_box(w, 0, 0, 1, &rows, table->box.padding);
    if (w->of->bag != PST_BAG_NONE) {
        pst_split_fault(w, "SPLIT2",
                        "a bag sums rows of several parts; a table that bags read must be whole");
    }
    if (w->op->n_param > 1 && w->op->param[1] != PST_NONE) {
        pst_split_fault(w, "SPLIT1", "each part adds the positions, which then count %u times",
                        w->parts);
    }
    place->layout = PST_LAYOUT_PARTIAL;
    place->classes = rows;
    place->no_bias = w->of->n_param > 1 && w->of->param[1] != PST_NONE;
}

static void embedding_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    const struct pst_parameter *table = pst_split_param(w, 0);
    if (table != NULL && pst_is_split(table)) {
        table_way(w, place);
    } else {
        whole_way(w, place);
    }
}

/* The logits are all of them, as each part says what it has of each row, padding left out. */
static void expect_classes(struct pst_split_walk *w, struct pst_split_place *place)
{
    const uint64_t classes = last_axis(w, w->of->in[0]);
    expect_sections(w, 0, 1, &classes);
    expect_layout(w, 1, PST_LAYOUT_WHOLE);
    place->classes = classes;
}

static void classes_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    const struct pst_split_place *numbers = input_of(w, 2);
    expect_classes(w, place);
    if (numbers->layout != PST_LAYOUT_ALL_NUMBERS || numbers->of != w->of->in[0]) {
        pst_split_fault(w, "SPLIT2", "input 2 is not what all parts say of %s",
                        w->whole->tensors[w->of->in[0]].name);
    }
    place->layout = PST_LAYOUT_WHOLE;
}

static bool is_by_row(uint32_t kind)
{
    return kind == PST_OP_LAYERNORM || kind == PST_OP_RMSNORM || kind == PST_OP_ADD ||
           kind == PST_OP_DROPOUT || kind == PST_OP_GLU || kind == PST_OP_ACT || kind == PST_OP_MAP;
}

static bool is_by_element(uint32_t kind)
{
    return kind == PST_OP_ACT || kind == PST_OP_ADD || kind == PST_OP_MAP || kind == PST_OP_DROPOUT;
}

/* Gate and up are two sections; the same rows of the down matrix read a part's columns. */
static void experts_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    const uint64_t width = w->whole->params[w->of->param[1]].dims[1], both[2] = {width, width};
    expect_layout(w, 0, PST_LAYOUT_FANNED);
    expect_layout(w, 1, PST_LAYOUT_FANNED);
    expect_box(w, 0, 2, 2, both, 0);
    expect_box(w, 1, 1, 1, &width, 0);
    place->layout = PST_LAYOUT_PARTIAL;
}

void pst_split_way(struct pst_split_walk *w, struct pst_split_place *place)
{
    const uint32_t layout = w->of->n_in > 0 ? input_of(w, 0)->layout : PST_LAYOUT_WHOLE;
    const bool split = layout == PST_LAYOUT_SPLIT;
    const uint32_t kind = w->of->kind;
    if (kind == PST_OP_LINEAR) {
        linear_way(w, place);
    } else if (kind == PST_OP_EMBEDDING) {
        embedding_way(w, place);
    } else if (w->op->kind == PST_OP_CE_JOIN) {
        classes_way(w, place);
    } else if (split && kind == PST_OP_ATTENTION) {
        attention_way(w, place);
    } else if (split && (kind == PST_OP_ROTARY || kind == PST_OP_QKNORM)) {
        heads_way(w, place);
    } else if (split && kind == PST_OP_GLU) {
        glu_way(w, place);
    } else if (split && is_by_element(kind)) {
        element_way(w, place);
    } else if (layout == PST_LAYOUT_FANNED && kind == PST_OP_EXPERTS) {
        experts_way(w, place);
    } else if (layout == PST_LAYOUT_TOKENS && is_by_row(kind)) {
        tokens_way(w, place);
    } else {
        whole_way(w, place);
    }
}

/* --- what stands beside operators of the model -------------------------------------------------*/

/* A join along the last axis goes by the first, and is then put in order. */
static uint32_t convert_from(const struct pst_split_walk *w, const struct pst_split_place *x)
{
    const uint32_t rank = w->whole->tensors[x->of].rank;
    const bool whole = x->layout == PST_LAYOUT_WHOLE && !x->no_bias;
    const bool rows = rank == 2 && w->whole->tensors[x->of].dims[0] % w->parts == 0;
    switch (w->op->convert) {
    case PST_CONVERT_FAN:
        return whole ? PST_LAYOUT_FANNED : PST_NONE;
    case PST_CONVERT_SUM:
        return x->layout == PST_LAYOUT_PARTIAL ? PST_LAYOUT_WHOLE : PST_NONE;
    case PST_CONVERT_SCATTER:
        return x->layout == PST_LAYOUT_PARTIAL && rows ? PST_LAYOUT_TOKENS : PST_NONE;
    case PST_CONVERT_GATHER:
        return x->layout == PST_LAYOUT_TOKENS && !x->no_bias ? PST_LAYOUT_FANNED : PST_NONE;
    case PST_CONVERT_CUT:
        return whole && rows ? PST_LAYOUT_TOKENS : PST_NONE;
    case PST_CONVERT_EXCHANGE:
        return x->layout == PST_LAYOUT_PACKED
                   ? pst_split_columns(x) == last_axis(w, x->of) ? PST_LAYOUT_SPLIT : PST_NONE
               : x->layout == PST_LAYOUT_SPLIT && x->n_sections == 1 && x->padding == 0 && rows
                   ? PST_LAYOUT_RETURNED
                   : PST_NONE;
    case PST_CONVERT_JOIN:
        return x->layout == PST_LAYOUT_TOKENS && !x->no_bias ? PST_LAYOUT_WHOLE
               : x->layout == PST_LAYOUT_NUMBERS             ? PST_LAYOUT_ALL_NUMBERS
               : x->layout != PST_LAYOUT_SPLIT || x->n_sections != 1 || x->padding > 0 ? PST_NONE
               : rank == 1 ? PST_LAYOUT_WHOLE
                           : PST_LAYOUT_STACKED;
    default:
        return PST_NONE;
    }
}

/* Rows of tokens are taken apart in equal sections, as many as the result has on its second axis.
 */
static uint32_t sliced_from(const struct pst_split_walk *w, struct pst_split_place *x)
{
    const struct pst_form *form = w->op->form;
    const uint64_t width =
        x->layout == PST_LAYOUT_PICKED ? pst_split_columns(x) : last_axis(w, x->of);
    if (x->no_bias || form == NULL || form->rank != 4 || form->dims[1] == 0 ||
        form->dims[1] > PST_BOX_SECTIONS || width % (form->dims[1] * w->parts) != 0) {
        return PST_NONE;
    }
    x->n_sections = (uint32_t)form->dims[1];
    for (uint32_t i = 0; i < x->n_sections; i++) {
        x->sections[i] = width / x->n_sections;
    }
    return PST_LAYOUT_SLICED;
}

static uint32_t reshaped_from(const struct pst_split_walk *w, struct pst_split_place *x)
{
    if (x->layout == PST_LAYOUT_TOKENS || x->layout == PST_LAYOUT_PICKED) {
        return sliced_from(w, x);
    }
    if (x->layout == PST_LAYOUT_TURNED) {
        x->n_sections = 0;
        return PST_LAYOUT_TOKENS;
    }
    return x->layout == PST_LAYOUT_DEALT      ? PST_LAYOUT_PACKED
           : x->layout == PST_LAYOUT_RETURNED ? PST_LAYOUT_LAID
           : x->layout == PST_LAYOUT_STACKED  ? PST_LAYOUT_APART
           : x->layout == PST_LAYOUT_ORDERED  ? PST_LAYOUT_WHOLE
                                              : PST_NONE;
}

/* Is it the form that puts axis from[a] at a, and no more? */
static bool is_order(const struct pst_form *form, uint32_t rank, const uint8_t *from)
{
    bool is = form != NULL && form->rank == rank;
    for (uint32_t a = 0; is && a < rank; a++) {
        is = form->from[a] == from[a] && form->start[a] == 0 && form->step[a] == 1;
    }
    return is;
}

/* Neighbouring columns of rows of tokens, and all rows. */
static uint32_t picked_from(const struct pst_split_walk *w, struct pst_split_place *x)
{
    const struct pst_form *form = w->op->form;
    const uint64_t width = last_axis(w, x->of);
    if (x->no_bias || form == NULL || form->rank != 2 || form->from[0] != 0 || form->from[1] != 1 ||
        form->start[0] != 0 || form->step[0] != 1 || form->step[1] != 1 || form->dims[1] == 0 ||
        form->dims[1] > width || form->start[1] < 0 ||
        (uint64_t)form->start[1] > width - form->dims[1]) {
        return PST_NONE;
    }
    x->start = (uint64_t)form->start[1];
    x->n_sections = 1;
    x->sections[0] = form->dims[1];
    return PST_LAYOUT_PICKED;
}

/* Blocks of neighbouring columns beside each other: block j has all that is part j's. */
static uint32_t packed_from(const struct pst_split_walk *w, struct pst_split_place *x)
{
    for (uint32_t i = 0; i < w->op->n_in; i++) {
        const struct pst_split_place *next = input_of(w, i);
        if (next->of != x->of || next->layout != PST_LAYOUT_PACKED || w->op->axis != 0) {
            return PST_NONE;
        }
        for (uint32_t k = 0; i > 0 && k < next->n_sections; k++) {
            if (x->n_sections == PST_BOX_SECTIONS ||
                (k == 0 && next->start != x->start + pst_split_columns(x))) {
                return PST_NONE;
            }
            x->sections[x->n_sections++] = next->sections[k];
        }
    }
    return PST_LAYOUT_PACKED;
}

/* The axis of parts, which is the first, becomes the last but one, or the other way in sections;
   all else stays. */
static uint32_t ordered_from(const struct pst_split_walk *w, struct pst_split_place *x)
{
    static const uint8_t dealt[] = {2, 0, 1, 3};
    const uint32_t rank = w->whole->tensors[x->of].rank + 1;
    uint8_t from[PST_MAX_RANK + 1];
    for (uint32_t a = 0; a < rank; a++) {
        from[a] = (uint8_t)(a + 2 < rank ? a + 1 : a + 1 < rank ? 0 : a);
    }
    if (x->layout == PST_LAYOUT_TOKENS) {
        return picked_from(w, x);
    }
    if (x->layout == PST_LAYOUT_SLICED) {
        return is_order(w->op->form, 4, dealt) ? PST_LAYOUT_DEALT : PST_NONE;
    }
    return !is_order(w->op->form, rank, from) ? PST_NONE
           : x->layout == PST_LAYOUT_APART    ? PST_LAYOUT_ORDERED
           : x->layout == PST_LAYOUT_LAID     ? PST_LAYOUT_TURNED
                                              : PST_NONE;
}

/* A part says four numbers of each row of logits. No other attribute of the loss is in them. */
static void check_numbers(struct pst_split_walk *w)
{
    struct pst_split_place place = {.of = w->of->in[0], .layout = PST_LAYOUT_NUMBERS};
    if (w->of->kind != PST_OP_CROSS_ENTROPY || w->op->n_in != 2) {
        pst_split_fault(w, "SPLIT1", "%s is no loss of classes", w->of->name);
        return;
    }
    expect_classes(w, &place);
    if (w->op->classes != place.classes || w->op->parts != w->parts) {
        pst_split_fault(w, "SPLIT1", "it has %u classes over %u parts; expected %llu over %u",
                        w->op->classes, w->op->parts, (unsigned long long)place.classes, w->parts);
    }
    place.classes = 0;
    pst_split_place(w, w->op->out[0], place);
}

/* The bias of a layer whose matrix is split by inputs, or positions of an embedding whose table is
   split: a tensor, then added to the sum. */
static void check_bias(struct pst_split_walk *w)
{
    const struct pst_parameter *bias = w->op->n_param > 0 && w->op->param[0] != PST_NONE
                                           ? &w->graph->params[w->op->param[0]]
                                           : NULL;
    if ((w->of->kind != PST_OP_LINEAR && w->of->kind != PST_OP_EMBEDDING) || w->of->n_param < 2 ||
        w->of->param[1] == PST_NONE || bias == NULL ||
        strcmp(bias->name, w->whole->params[w->of->param[1]].name) != 0 || pst_is_split(bias) ||
        w->op->partial > 1) {
        pst_split_fault(w, "SPLIT1", "is not the whole bias of %s", w->of->name);
        return;
    }
    pst_split_place(w, w->op->out[0],
                    (struct pst_split_place){.of = w->of->out[0],
                                             .layout = PST_LAYOUT_BIAS,
                                             .partial = w->op->partial != 0});
}

static void check_sum(struct pst_split_walk *w)
{
    const struct pst_split_place *x = input_of(w, 0);
    const struct pst_split_place *bias = w->op->n_in == 2 ? input_of(w, 1) : x;
    const bool tokens = x->layout == PST_LAYOUT_TOKENS;
    const bool rows = w->of->kind == PST_OP_EMBEDDING; /* of all tokens */
    if (w->op->map != PST_MAP_ADD || !x->no_bias || (x->layout != PST_LAYOUT_WHOLE && !tokens) ||
        bias->partial != tokens || (rows && tokens) || bias->layout != PST_LAYOUT_BIAS ||
        bias->of != x->of) {
        pst_split_fault(w, "SPLIT1", "is not the sum over the parts and the bias of one layer");
        return;
    }
    pst_split_place(w, w->op->out[0], (struct pst_split_place){.of = x->of, .layout = x->layout});
}

void pst_split_helper(struct pst_split_walk *w)
{
    struct pst_split_place place;
    const bool bias = w->op->kind == PST_OP_PARAMETER;
    if (w->op->n_out != 1 || (!bias && (w->op->n_in == 0 || w->op->partial != 0))) {
        pst_split_fault(w, "SPLIT1", "is nothing that the model or a conversion needs");
        return;
    }
    if (bias) {
        check_bias(w);
        return;
    }
    if (w->op->kind == PST_OP_CE_PART) {
        check_numbers(w);
        return;
    }
    if (w->op->kind == PST_OP_MAP) {
        check_sum(w);
        return;
    }
    place = *input_of(w, 0);
    place.partial = false;
    place.layout = w->op->kind == PST_OP_CONVERT && w->op->parts == w->parts && w->parts > 1
                       ? convert_from(w, &place)
                   : w->op->kind == PST_OP_RESHAPE ? reshaped_from(w, &place)
                   : w->op->kind == PST_OP_STRIDED ? ordered_from(w, &place)
                   : w->op->kind == PST_OP_CONCAT  ? packed_from(w, &place)
                                                   : PST_NONE;
    if (place.layout == PST_NONE) {
        pst_split_fault(w, w->op->kind == PST_OP_CONVERT ? "SPLIT2" : "SPLIT1",
                        "nothing is made so of %s, which is %s", w->whole->tensors[place.of].name,
                        layout_name(input_of(w, 0)->layout));
        return;
    }
    pst_split_place(w, w->op->out[0], place);
}
