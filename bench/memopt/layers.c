/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up transformers of any number of operators.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/philox.h"

#define TOKENS 512.0
#define WIDTH  1024.0
#define HEADS  16.0
#define FLOPS  40e12
#define BYTES  800e9

struct kind {
    const char *name;
    double flops; /* of the matrix product, if it is one */
    double moved, saved, output, params;
    uint32_t reads_back;
};

void layer_operations(uint32_t layer, struct operation ret_operations[N_OPERATIONS])
{
    const double x = 2 * TOKENS * WIDTH, scores = TOKENS * TOKENS * HEADS, square = WIDTH * WIDTH;
    const double square_flops = 2 * TOKENS * square, core = 2 * TOKENS * TOKENS * WIDTH;
    const struct kind kinds[N_OPERATIONS] = {
        {"norm1", 0, 2 * x, x, x, 4 * WIDTH, 0},
        {"qkv", 3 * square_flops, 0, 3 * x, 3 * x, 6 * square, 0},
        {"scores", core, 0, 0, 2 * scores, 0, 0},
        {"softmax", 0, 4 * scores, 2 * scores, 2 * scores, 0, 0},
        {"dropout", 0, 5 * scores, 3 * scores, 2 * scores, 0, 0},
        {"context", core, 0, x, x, 0, 0},
        {"proj", square_flops, 0, 0, x, 2 * square, 0},
        {"add1", 0, 3 * x, 1.5 * x, x, 0, 7},
        {"norm2", 0, 2 * x, x, x, 4 * WIDTH, 0},
        {"up", 4 * square_flops, 0, 4 * x, 4 * x, 8 * square, 0},
        {"gelu", 0, 8 * x, 4 * x, 4 * x, 0, 0},
        {"down", 4 * square_flops, 0, 0, x, 8 * square, 0},
        {"add2", 0, 3 * x, 1.5 * x, x, 0, 4},
    };

    for (uint32_t i = 0; i < N_OPERATIONS; i++) {
        struct pst_philox r = pst_philox(7, layer, i);
        const struct kind *k = &kinds[i];
        double more = 1 + r.v[0] % 200 / 1000.0, larger = 1 + r.v[1] % 200 / 1000.0;
        double us = (k->flops / FLOPS + k->moved / BYTES) * 1e6 * more + 2;

        ret_operations[i] = (struct operation){
            .name = k->name,
            .forward_us = us,
            .backward_us = 2 * us,
            .saved = (uint64_t)(k->saved * larger),
            .output = (uint64_t)k->output,
            .params = (uint64_t)k->params,
            .reads_back = k->reads_back,
        };
    }
}

static void write_nodes(FILE *out, uint32_t n)
{
    struct operation ops[N_OPERATIONS];

    for (uint32_t v = 0; v < n; v++) {
        const struct operation *op = &ops[v % N_OPERATIONS];

        if (v % N_OPERATIONS == 0) {
            layer_operations(v / N_OPERATIONS, ops);
        }
        fprintf(out,
                "%s{\"name\":\"h%u.%s\",\"forward_us\":%.3f,\"backward_input_us\":%.3f,"
                "\"backward_weight_us\":0,\"saved_bytes\":%llu,\"param_bytes\":%llu}",
                v > 0 ? "," : "", v / N_OPERATIONS, op->name, op->forward_us, op->backward_us,
                (unsigned long long)op->saved, (unsigned long long)op->params);
    }
}

static void write_edge(FILE *out, uint32_t from, uint32_t to)
{
    struct operation a[N_OPERATIONS], b[N_OPERATIONS];

    layer_operations(from / N_OPERATIONS, a);
    layer_operations(to / N_OPERATIONS, b);
    fprintf(out, "%s{\"from\":\"h%u.%s\",\"to\":\"h%u.%s\",\"bytes\":%llu}", to > 1 ? "," : "",
            from / N_OPERATIONS, a[from % N_OPERATIONS].name, to / N_OPERATIONS,
            b[to % N_OPERATIONS].name, (unsigned long long)a[from % N_OPERATIONS].output);
}

static void write_edges(FILE *out, uint32_t n)
{
    struct operation ops[N_OPERATIONS];

    for (uint32_t v = 1; v < n; v++) {
        uint32_t back;

        layer_operations(v / N_OPERATIONS, ops);
        back = ops[v % N_OPERATIONS].reads_back;
        write_edge(out, v - 1, v);
        if (back > 1 && back <= v) {
            write_edge(out, v - back, v);
        }
    }
}

char *layers_problem(uint32_t n, uint32_t devices, double memory, const char *memopt,
                     const char *options)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL) {
        return NULL;
    }
    fprintf(out,
            "{\"format\":\"penstock-problem\",\"version\":1,\"cost\":\"planned\","
            "\"mini_batch\":%u,\"micro_batches\":[1],\"weight_multiplier\":8,\"devices\":%u,"
            "\"memory_bytes\":%.0f,\"swap_bandwidth\":12e9,\"link_directions\":1,"
            "\"input_bytes\":1048576,\"p2p_bandwidth\":25e9,\"scheduler\":\"1f1b\","
            "\"memopt\":\"%s\",\"memopt_options\":{%s},\"graph\":{\"nodes\":[",
            4 * devices, devices, memory, memopt, options);
    write_nodes(out, n);
    fprintf(out, "],\"edges\":[");
    write_edges(out, n);
    fprintf(out, "]}}");
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
