/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tensor says of the file that its data lie in: keys and values, each behind its length. The
 * folder is the tree's.
 */
#include <onnx.pb-c.h>
#include <stdlib.h>

#include "base/memory.h"
#include "fuzz.h"
#include "onnx/onnx.h"

/* The next text, without NUL; the rest where its length is more than that. */
static char *take(const uint8_t **data, size_t *size)
{
    size_t n = *size == 0 ? 0 : **data;
    char *text;

    if (*size > 0) {
        (*data)++;
        (*size)--;
    }
    n = n > *size ? *size : n;
    text = pst_strndup((const char *)*data, n);
    *data += n;
    *size -= n;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Onnx__StringStringEntryProto entries[8], *list[8];
    Onnx__TensorProto tensor = ONNX__TENSOR_PROTO__INIT;
    struct onnx_external *external =
        onnx_external_open(PENSTOCK_SOURCE_DIR "/tests/fuzz/corpus/onnx_external/model.onnx");
    const uint64_t bytes = size == 0 ? 0 : data[0];
    struct pst_error err = {0};
    uint8_t values[256];

    tensor.name = (char *)"w";
    tensor.external_data = list;
    data += size > 0;
    size -= size > 0;
    while (size > 0 && tensor.n_external_data < 8) {
        Onnx__StringStringEntryProto *entry = &entries[tensor.n_external_data];

        onnx__string_string_entry_proto__init(entry);
        entry->key = take(&data, &size);
        entry->value = take(&data, &size);
        list[tensor.n_external_data++] = entry;
    }
    if (fuzz_judge(onnx_external_check(external, &tensor, bytes, &err), &err)) {
        fuzz_judge(onnx_external_read(external, &tensor, 0, bytes, values, &err), &err);
    }
    for (size_t i = 0; i < tensor.n_external_data; i++) {
        free(list[i]->key);
        free(list[i]->value);
    }
    onnx_external_close(external);
    return 0;
}
