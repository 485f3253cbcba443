/* SPDX-License-Identifier: Apache-2.0
 *
 * Text to tokens and back by a tokenizer.json as Hugging Face's `tokenizers` writes it: byte-level
 * BPE (Sennrich et al., ACL 2016; bytes: Radford et al., "Language models are unsupervised
 * multitask learners", 2019), as GPT-2, Llama 3, Qwen and SmolLM have it. What a file asks for and
 * is not done here is refused when it is read, so tokens are those of that library.
 */
#ifndef PST_DATA_TOKENIZER_H
#define PST_DATA_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define PST_TOKENIZER_BYTES ((size_t)64 << 20) /* of a file, at most */

struct pst_tokenizer; /* read-only once read: any thread may use it */

/*
 * The file has at most 64 MiB, 2^20 tokens and as many merges. Errors (exit 2): those of
 * pst_json_load; input.syntax with the field; input.unsupported for what is no byte-level BPE, or
 * for a step that is not known here.
 */
pst_status pst_tokenizer_read(const char *path, struct pst_tokenizer **ret_tokenizer,
                              struct pst_error *err);
void pst_tokenizer_destroy(struct pst_tokenizer *tokenizer); /* accepts NULL */

/* One more than the largest token: the least model.vocab that does. */
uint32_t pst_tokenizer_vocab(const struct pst_tokenizer *tokenizer);

/* The token that stands for exactly this text, special ones too; PST_NONE: there is none. */
uint32_t pst_tokenizer_token(const struct pst_tokenizer *tokenizer, const char *content);

/* One that stands for no text, such as the end of one. */
bool pst_tokenizer_is_special(const struct pst_tokenizer *tokenizer, int32_t token);

/*
 * Tokens of `length` bytes of UTF-8; special tokens that are written out in the text become
 * themselves. framed: with what the file puts around a text (begin of text), as a prompt wants it.
 * ret_tokens: free() them. input.syntax: not UTF-8, with the byte; input.limit: the pattern that
 * splits words needs too long, with the byte.
 */
pst_status pst_tokenizer_encode(const struct pst_tokenizer *tokenizer, const char *text,
                                uint64_t length, bool framed, int32_t **ret_tokens, uint64_t *ret_n,
                                struct pst_error *err);

/* The bytes that n tokens stand for, with a final NUL; free() them. A character may be cut at
   either end; tokens that the vocabulary lacks stand for nothing. skip_special: so do special ones.
 */
char *pst_tokenizer_decode(const struct pst_tokenizer *tokenizer, const int32_t *tokens, uint64_t n,
                           bool skip_special, uint64_t *ret_length);

#endif
