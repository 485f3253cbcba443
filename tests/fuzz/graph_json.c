/* SPDX-License-Identifier: Apache-2.0
 *
 * A costed graph: read, written and read again.
 */
#include <stdlib.h>

#include "graph/costed.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pst_costed *graph = NULL, *again = NULL;
    struct pst_error err = {0};
    size_t length;
    double ns[3];
    char *text;

    if (!fuzz_judge(pst_costed_read(fuzz_file(data, size), &graph, &err), &err)) {
        return 0;
    }
    for (uint32_t v = 0; v < graph->n_nodes; v++) {
        pst_costed_node_ns(graph, v, 3, ns);
    }
    text = pst_costed_write(graph, &length);
    if (!fuzz_judge(pst_costed_read(fuzz_file(text, length), &again, &err), &err) ||
        again->digest != graph->digest) {
        fuzz_fail("what was written is another graph: %s\n%s", err.message, text);
    }
    free(text);
    pst_costed_destroy(again);
    pst_costed_destroy(graph);
    return 0;
}
