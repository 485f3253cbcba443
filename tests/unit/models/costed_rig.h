/* SPDX-License-Identifier: Apache-2.0
 *
 * Costed graphs from texts, for tests.
 */
#ifndef PENSTOCK_TESTS_COSTED_RIG_H
#define PENSTOCK_TESTS_COSTED_RIG_H

#include "base/util.h"
#include "models/costed/costed_file.h"

#include "test.h"

#include "support.h"
#include "random.h"

OWNER(costed)

#define HEAD "{\"format\":\"penstock-graph\",\"version\":1,"

static inline struct pst_costed *read_text(const char *text)
{
    struct pst_costed *graph = NULL;
    struct pst_error err = {0};

    if (pst_costed_read(support_write("graph.json", text), &graph, &err) != PST_OK) {
        fail_msg("%s: %s", err.kind, err.message);
    }
    return graph;
}

#endif
