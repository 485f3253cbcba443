/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer.json: what is read makes tokens of a text, and text of them.
 */
#include <stdlib.h>

#include "fuzz.h"
#include "data/tokenizer.h"

static const char text[] =
    "It's the 12th stage\xE2\x80\xA6 <|end|>\n\n  x = a\u0301+\u00e9;\t\u8a9e "
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pst_tokenizer *tokenizer = NULL;
    struct pst_error err = {0};
    int32_t *tokens = NULL;
    uint64_t n = 0, length = 0;

    if (!fuzz_judge(pst_tokenizer_read(fuzz_file(data, size), &tokenizer, &err), &err)) {
        return 0;
    }
    if (fuzz_judge(pst_tokenizer_encode(tokenizer, text, sizeof text - 1, true, &tokens, &n, &err),
                   &err)) {
        for (uint64_t i = 0; i < n; i++) {
            if (tokens[i] < 0 || (uint32_t)tokens[i] >= pst_tokenizer_vocab(tokenizer)) {
                fuzz_fail("token %d", tokens[i]);
            }
        }
        free(pst_tokenizer_decode(tokenizer, tokens, n, false, &length));
        free(tokens);
    }
    pst_tokenizer_destroy(tokenizer);
    return 0;
}
