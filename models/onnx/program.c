/* SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch computes and ONNX's operators do not say. Files of the newer exporter have, for each
 * node, the operator of PyTorch's program that it is of, with all arguments. In files of the older
 * exporter some cases leave a trace in the nodes.
 */
#include "onnx.h"

#include <stdlib.h>
#include <string.h>

#define NODE_FIELD 9 /* metadata_props */

const char *onnx_program_text(struct onnx_model *model, const struct onnx_node *node)
{
    return onnx_metadata(model, &node->proto->base, NODE_FIELD, "pkg.torch.onnx.fx_node");
}

/* The end of an argument "x", "[1, 2]": before the comma or bracket that ends it. */
static const char *end_of(const char *at)
{
    for (uint32_t depth = 0; *at != '\0' && (depth > 0 || strchr(",)", *at) == NULL); at++) {
        depth += strchr("[(", *at) != NULL;
        depth -= depth > 0 && strchr("])", *at) != NULL;
    }
    return at;
}

/* Argument i of the node's operator, if that is "torch.ops.aten.OP"; NULL: it has no such. */
static const char *find_argument(struct onnx_model *model, const struct onnx_node *node,
                                 const char *op, uint32_t i)
{
    const char *text = onnx_program_text(model, node);
    const char *name = pst_arena_printf(&model->arena, "torch.ops.aten.%s](args = (", op);
    const char *at = text == NULL ? NULL : strstr(text, name);

    at = at == NULL ? NULL : at + strlen(name);
    for (uint32_t k = 0; k < i && at != NULL; k++) {
        at = end_of(at);
        at = *at == ',' && at[1] == ' ' && at[2] != ')' ? at + 2 : NULL;
    }
    return at;
}

#define EMBEDDING "embedding.default" /* (weight, indices, padding_idx, scale_grad_by_freq) */

long onnx_padding(struct onnx_model *model, const struct onnx_node *lookup)
{
    const struct onnx_value *table = onnx_in(model, lookup, 0);
    const char *row = table->learned && !onnx_in_list(model->config->trained, table->name)
                          ? find_argument(model, lookup, EMBEDDING, 2)
                          : NULL;

    return row == NULL ? -1 : strtol(row, NULL, 10);
}

bool onnx_scales_by_frequency(struct onnx_model *model, const struct onnx_node *node)
{
    const char *scales = find_argument(model, node, EMBEDDING, 3);

    return scales != NULL && strncmp(scales, "True", strlen("True")) == 0;
}

long onnx_divisor(struct onnx_model *model, const struct onnx_node *pool)
{
    const char *divisor = find_argument(model, pool, "avg_pool2d.default", 6);

    return divisor == NULL ? 0 : strtol(divisor, NULL, 10); /* "None", too, is 0 */
}

/* --- the older exporter ----------------------------------------------------------------------- */

/* Returns true if a list of places, or one of those that it is computed from, has a negative one.
 */
static bool has_negative(struct onnx_model *model, struct onnx_value *places)
{
    const struct onnx_data *data = onnx_known(model, places);
    const struct onnx_node *node = onnx_maker(model, places);
    bool found = false;

    for (uint64_t i = 0; data != NULL && !data->real && i < onnx_elems(places) && !found; i++) {
        found = onnx_integer(data, i) < 0;
    }
    return found || (node != NULL && (node->op == ONNX_Add || node->op == ONNX_Mul) &&
                     (has_negative(model, onnx_in(model, node, 0)) ||
                      has_negative(model, onnx_in(model, node, 1))));
}

/*
 * The exporter makes one axis of those that lists of indices stand for, and one list:
 *
 *     x[[1, 2], [3, -1]], 8 columns    Gather(Flatten(Transpose(x)), Add([3, -1], Mul([1, 2], 8)))
 *
 * There -1 is the last column of the row before. Only the first list may count from the end.
 */
bool onnx_joins_negative_places(struct onnx_model *model, const struct onnx_node *gather)
{
    struct onnx_value *places = onnx_in(model, gather, 1);
    const struct onnx_node *flat = onnx_maker(model, onnx_in(model, gather, 0));
    const struct onnx_node *sum = onnx_maker(model, places), *moved;

    if (model->n_told > 0 || !onnx_is_from_torch(model) || !places->fixed || flat == NULL ||
        flat->op != ONNX_Flatten || onnx_int(gather, "axis", 0) != 0) {
        return false;
    }
    if (sum != NULL && sum->op == ONNX_Add) {
        return has_negative(model, onnx_in(model, sum, 0));
    }
    moved = onnx_maker(model, onnx_in(model, flat, 0));
    return moved != NULL && moved->op == ONNX_Transpose && has_negative(model, places);
}
