/* SPDX-License-Identifier: Apache-2.0
 *
 * From parameters to tensors of published files: names by patterns, layouts by copying.
 */
#include "weights/weights_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exec/exec.h"

/* The name that the first n characters of a pattern make. place: what '@' is. */
static char *fill_in(struct pst_arena *arena, const char *prefix, const char *pattern, size_t n,
                     const struct pst_published_blanks *blanks, uint64_t place)
{
    char digits[24];
    char text[512];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", prefix);

    snprintf(digits, sizeof digits, "%llu", (unsigned long long)place);
    for (size_t i = 0; i < n && used < sizeof text; i++) {
        const char word[2] = {pattern[i], '\0'};
        const char *add = word[0] == '#'   ? blanks->number
                          : word[0] == '*' ? blanks->rest
                          : word[0] == '@' ? digits
                                           : word;

        used += (size_t)snprintf(text + used, sizeof text - used, "%s", add);
    }
    return pst_arena_strdup(arena, text);
}

static double factor_of(const struct pst_published_row *row, const struct pst_job *job)
{
    double root = row->root == NULL ? 1 : sqrt(pst_weights_model_number(job, row->root));

    return row->inverse ? 1 / root : root;
}

/* The matrix that a value is, or one of several in it, and how a tensor lies in it. */
static struct pst_weights_piece piece_of(const struct pst_weights_value *value, uint32_t layout,
                                         bool several, uint64_t place)
{
    const uint32_t rank = value->rank - several;
    const uint64_t elems = several ? value->elems / value->dims[0] : value->elems;
    bool torch = layout == PST_LAYOUT_TORCH && (rank == 2 || rank == 4);
    bool turned = layout == PST_LAYOUT_TURNED && rank == 4;
    struct pst_weights_piece piece = {
        .transposed = torch,
        .turned = turned,
        .taps = (torch || turned) && rank == 4 ? value->dims[0] * value->dims[1] : 1,
        .more_rows = layout == PST_LAYOUT_ROWS,
        .lead = several,
        .origin = place * elems,
        .columns = value->rank == 0 ? 1 : value->dims[value->rank - 1],
        .factor = 1,
    };

    piece.rows = piece.columns == 0 ? 0 : elems / piece.columns;
    return piece;
}

/* The value of key i. */
static double part_of(const char *parts, uint32_t i, const struct pst_job *job)
{
    char key[64];

    for (; i > 0; i--) {
        parts = pst_published_next(parts);
    }
    snprintf(key, sizeof key, "%.*s", (int)strcspn(parts, PST_PUBLISHED_BREAK), parts);
    return pst_weights_model_number(job, key);
}

/* Returns how wide tensor i is to the others. */
static uint64_t size_of(const struct pst_published_row *row, const struct pst_job *job, uint32_t i)
{
    double size = row->parts == NULL ? 1 : part_of(row->parts, i, job);

    return size > 0 || i == 0 ? (uint64_t)size : size_of(row, job, 0);
}

/* Side by side in the last axis; false: its columns cannot be shared so. */
static bool share_columns(const struct pst_published_row *row, const struct pst_job *job,
                          struct pst_weights_piece *pieces, uint32_t n)
{
    uint64_t sum = 0, column = 0;
    bool whole = true;

    for (uint32_t i = 0; i < n; i++) {
        sum += size_of(row, job, i);
    }
    for (uint32_t i = 0; i < n; i++) {
        pieces[i].column = column;
        pieces[i].width = pieces[i].columns * size_of(row, job, i) / (sum > 0 ? sum : 1);
        column += pieces[i].width;
        whole = whole && pieces[i].columns * size_of(row, job, i) % (sum > 0 ? sum : 1) == 0;
    }
    return whole && sum > 0;
}

/* The tensors that one matrix of the value is made of; false: it cannot be divided so. */
static bool add_pieces(const struct pst_published_row *row, const struct pst_job *job,
                       const struct pst_weights_value *value, const char *prefix,
                       const struct pst_published_blanks *blanks, uint64_t place,
                       struct pst_arena *arena, struct pst_weights_piece *pieces)
{
    const bool several = strchr(row->theirs, '@') != NULL;
    uint32_t n = 0;

    for (const char *at = row->theirs; at != NULL; at = pst_published_next(at)) {
        const size_t length = strcspn(at, PST_PUBLISHED_BREAK);

        pieces[n] = piece_of(value, row->layout, several, place);
        pieces[n].name = fill_in(arena, prefix, at, length, blanks, place);
        pieces[n].bare = pieces[n].name + strlen(prefix);
        pieces[n].factor = n == 0 ? factor_of(row, job) : 1;
        n++;
    }
    return share_columns(row, job, pieces, n) && isfinite(factor_of(row, job)) &&
           factor_of(row, job) > 0;
}

const struct pst_published_file *pst_weights_file(const struct pst_graph *graph)
{
    return graph->initial.published == NULL ? NULL
                                            : graph->initial.published(graph->initial.context);
}

static bool is_of_model(const struct pst_initial_tensor *tensor, const struct pst_graph *graph,
                        const struct pst_weights_value *value)
{
    const bool parameter = value->kind == PST_STATE_PARAMETER;

    return tensor->own != NULL && tensor->state == (parameter ? PST_NONE : value->number) &&
           strcmp(tensor->own, parameter ? graph->params[value->index].name
                                         : graph->ops[value->index].name) == 0;
}

/* One for each name that the value has in the file's module. */
static struct pst_weights_piece *pieces_of_file(const struct pst_graph *graph,
                                                const struct pst_published_file *file,
                                                const struct pst_weights_value *value,
                                                struct pst_arena *arena, uint32_t *ret_n)
{
    struct pst_weights_piece *pieces;
    uint32_t n = 0;

    for (uint32_t i = 0; i < file->n_tensors; i++) {
        n += is_of_model(&file->tensors[i], graph, value);
    }
    pieces = pst_arena_array(arena, n + 1, sizeof *pieces);
    n = 0;
    for (uint32_t i = 0; i < file->n_tensors; i++) {
        const struct pst_initial_tensor *tensor = &file->tensors[i];

        if (is_of_model(tensor, graph, value)) {
            pieces[n] = piece_of(value, tensor->layout, false, 0);
            pieces[n].width = pieces[n].columns;
            pieces[n].name = pst_arena_strdup(arena, tensor->name);
            pieces[n].bare = pieces[n].name;
            pieces[n++].of_file = tensor;
        }
    }
    *ret_n = n;
    return pieces;
}

/* The row for a value: the first of its name that is for the model, or its own name and layout. */
static const struct pst_published_row *row_of_value(const struct pst_published *family,
                                                    const struct pst_job *job,
                                                    const struct pst_weights_value *value,
                                                    struct pst_published_blanks *ret_blanks)
{
    static const struct pst_published_row own = {.own = "*", .theirs = "*", .bare = true};
    const struct pst_published_row *row = family->tensors;

    while (row->own != NULL && (!pst_published_fits(row->own, value->name, ret_blanks) ||
                                !pst_weights_when(row->when, job))) {
        row++;
    }
    if (row->own == NULL) {
        row = &own;
        pst_published_fits(row->own, value->name, ret_blanks);
    }
    return row;
}

pst_status pst_weights_pieces(const struct pst_graph *graph, const struct pst_job *job,
                              const struct pst_published *family,
                              const struct pst_weights_value *value, struct pst_arena *arena,
                              struct pst_weights_piece **ret_pieces, uint32_t *ret_n,
                              struct pst_error *err)
{
    const struct pst_published_file *file = pst_weights_file(graph);
    struct pst_published_blanks blanks;
    const struct pst_published_row *row = row_of_value(family, job, value, &blanks);
    const char *prefix = row->bare || family->prefix == NULL ? "" : family->prefix;
    const bool several = strchr(row->theirs, '@') != NULL;
    bool divides = !several || value->rank > 1;
    const uint64_t matrices = several && divides ? value->dims[0] : 1;
    const uint32_t n = pst_published_count(row->theirs);

    *ret_n = 0;
    if (file != NULL) {
        *ret_pieces = pieces_of_file(graph, file, value, arena, ret_n);
    }
    if (*ret_n > 0) {
        return PST_OK;
    }
    *ret_pieces = pst_arena_array(arena, matrices * n, sizeof **ret_pieces);
    for (uint64_t i = 0; divides && i < matrices; i++) {
        divides = add_pieces(row, job, value, prefix, &blanks, i, arena, *ret_pieces + i * n);
    }
    *ret_n = (uint32_t)matrices * n;
    return divides ? PST_OK
                   : pst_fail(err, PST_ERR_CONFIG, "weights.mismatch",
                              "the row for \"%s\" of family %s cannot divide %s among its tensors",
                              row->own, family->model, value->name);
}

/* A value that the graph's file names needs no row. */
static bool fits_value(const struct pst_published_row *row, const struct pst_graph *graph,
                       const struct pst_weights_value *value)
{
    const struct pst_published_file *file = pst_weights_file(graph);
    struct pst_published_blanks blanks;
    bool fits = pst_published_fits(row->own, value->name, &blanks);

    for (uint32_t i = 0; fits && file != NULL && i < file->n_tensors; i++) {
        fits = !is_of_model(&file->tensors[i], graph, value);
    }
    return fits;
}

pst_status pst_weights_check_rows(const struct pst_graph *graph, const struct pst_job *job,
                                  const struct pst_published *family,
                                  const struct pst_weights_value *values, uint32_t n,
                                  struct pst_error *err)
{
    const char *path = job->training->loop.init_family;

    if (path[0] == '\0') {
        return PST_OK;
    }
    for (const struct pst_published_row *row = family->tensors; row->own != NULL; row++) {
        bool fits = !pst_weights_when(row->when, job);

        for (uint32_t i = 0; !fits && i < n; i++) {
            fits = fits_value(row, graph, &values[i]);
        }
        if (!fits) {
            pst_fail_at(err, PST_ERR_CONFIG, "config.value", path, 0, 0,
                        "tensors: the row of own = \"%.200s\" fits no parameter of this model",
                        row->own);
            pst_error_hint(err, "correct the name, or limit the row by \"when\" to the models that "
                                "have such a parameter");
            return PST_ERR_CONFIG;
        }
    }
    return PST_OK;
}

struct pst_weights_shape pst_weights_shape_of(const struct pst_weights_value *value,
                                              const struct pst_weights_piece *piece)
{
    const uint64_t *dims = value->dims + piece->lead;
    struct pst_weights_shape shape = {.rank = value->rank - piece->lead};

    if (piece->of_file != NULL) {
        shape.rank = piece->of_file->rank;
        memcpy(shape.dims, piece->of_file->dims, sizeof shape.dims);
        return shape;
    }
    if (shape.rank == 0) {
        return shape;
    }
    memcpy(shape.dims, dims, shape.rank * sizeof *dims);
    shape.dims[shape.rank - 1] = piece->width;
    if (piece->transposed && shape.rank == 2) {
        shape.dims[0] = piece->width;
        shape.dims[1] = dims[0];
    } else if (piece->transposed) {
        const uint64_t torch[4] = {piece->width, dims[2], dims[0], dims[1]};

        memcpy(shape.dims, torch, sizeof torch);
    }
    return shape;
}

static uint32_t count_states(const struct pst_graph *graph)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < graph->n_ops; i++) {
        n += graph->ops[i].n_state;
    }
    return n;
}

struct pst_weights_value *pst_weights_values(const struct pst_graph *graph, struct pst_arena *arena,
                                             uint32_t *ret_n)
{
    static const char *const words[2] = {"running_mean", "running_var"};
    struct pst_weights_value *values =
        pst_arena_array(arena, graph->n_params + count_states(graph) + 1, sizeof *values);
    uint32_t n = 0;

    for (uint32_t i = 0; i < graph->n_params; i++) {
        const struct pst_parameter *param = &graph->params[i];

        values[n++] = (struct pst_weights_value){.kind = PST_STATE_PARAMETER,
                                                 .index = i,
                                                 .name = param->name,
                                                 .rank = param->rank,
                                                 .dims = param->dims,
                                                 .elems = param->elems};
    }
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const struct pst_op *op = &graph->ops[i];

        for (uint32_t s = 0; s < op->n_state; s++) {
            const char *gain = graph->params[op->param[0]].name; /* NAME.weight */

            PST_ASSERT(s < 2);
            values[n++] = (struct pst_weights_value){
                .kind = PST_STATE_OPERATOR,
                .index = i,
                .number = s,
                .name = pst_arena_printf(arena, "%.*s.%s", (int)(strrchr(gain, '.') - gain), gain,
                                         words[s]),
                .rank = 1,
                .dims = &op->state_elems[s],
                .elems = op->state_elems[s]};
        }
    }
    *ret_n = n;
    return values;
}

/* --- values ----------------------------------------------------------------------------------- */

/* The row of ours that column i of a transposed tensor is. */
static uint64_t row_of_column(const struct pst_weights_piece *piece, uint64_t i)
{
    return i % piece->taps * (piece->rows / piece->taps) + i / piece->taps;
}

/* Where element i of row k of a turned tensor is. */
static uint64_t place_of_turned(const struct pst_weights_piece *piece, uint64_t k, uint64_t i)
{
    const uint64_t tap = piece->taps - 1 - i % piece->taps, in = piece->rows / piece->taps;

    return (tap * in + k) * piece->columns + i / piece->taps;
}

static inline void move_value(float *value, float *theirs, float factor, bool out)
{
    if (out) {
        *theirs = *value / factor;
    } else {
        *value = factor * *theirs;
    }
}

/* Rows [first, first + n) of what is in the file, [n][width]. Of transposed pieces a row is a
   column of ours. */
static void move_rows(const struct pst_weights_piece *piece, uint64_t first, uint64_t n,
                      uint64_t width, float *theirs, float *values, bool out)
{
    const float factor = (float)piece->factor;

    values += piece->origin + piece->column;
    for (uint64_t i = 0; piece->turned && i < n * width; i++) {
        move_value(&values[place_of_turned(piece, first + i / width, i % width)], &theirs[i],
                   factor, out);
    }
    for (uint64_t i = 0; piece->transposed && i < width; i++) {
        float *ours = values + row_of_column(piece, i) * piece->columns + first;

        for (uint64_t k = 0; k < n; k++) {
            move_value(&ours[k], &theirs[k * width + i], factor, out);
        }
    }
    for (uint64_t k = 0; !piece->transposed && !piece->turned && k < n; k++) {
        float *ours = values + (first + k) * piece->columns;

        for (uint64_t i = 0; i < width; i++) {
            move_value(&ours[i], &theirs[k * width + i], factor, out);
        }
    }
}

pst_status pst_weights_pass(const struct pst_weights_piece *piece, float *values, bool out,
                            pst_weights_block *pass, void *context, struct pst_error *err)
{
    const uint64_t taps = piece->turned ? piece->taps : 1;
    const uint64_t rows = piece->transposed ? piece->width : piece->rows / taps;
    const uint64_t width = piece->transposed ? piece->rows : piece->width * taps;
    const uint64_t before = piece->of_file == NULL ? 0 : piece->of_file->first;
    const uint64_t fit = width == 0 ? 1 : PST_WEIGHTS_BLOCK / width, n = fit == 0 ? 1 : fit;
    float *block = pst_alloc((n < rows ? n : rows) * width + 1, sizeof *block);
    pst_status status = PST_OK;

    for (uint64_t first = 0; status == PST_OK && first < rows; first += n) {
        const uint64_t m = rows - first < n ? rows - first : n;

        if (out) {
            move_rows(piece, first, m, width, block, values, true);
        }
        status = pass(context, before + first * width, m * width, block, err);
        if (status == PST_OK && !out) {
            move_rows(piece, first, m, width, block, values, false);
        }
    }
    free(block);
    return status;
}
