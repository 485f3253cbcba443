/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON reader by itself: limits, then the parser.
 */
#include "config/json_fields.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *root = NULL;
    struct pst_error err = {0};

    fuzz_judge(pst_json_load(fuzz_file(data, size), (size_t)1 << 20, &root, &err), &err);
    json_decref(root);
    return 0;
}
