/* SPDX-License-Identifier: Apache-2.0
 *
 * The package `tokenizers` matches with Oniguruma, penstock with PCRE2. Most of a pattern means the
 * same to both. What does not is written anew here, or refused: what both would take and one
 * understand otherwise must not pass.
 */
#include "data/tokenizer_impl.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Unicode's White_Space; PCRE2's \s has U+180E besides. */
#define SPACES    "\\p{Z}\\t-\\r\\x{85}"
#define NO_SPACES "\\S\\x{180E}"

struct translation {
    const char *at;
    char *text;
    size_t n, capacity;
    char *refused; /* what is; NULL: nothing */
};

static void put(struct translation *tr, const char *text, size_t length)
{
    if (tr->n + length + 1 > tr->capacity) {
        tr->capacity = 2 * (tr->n + length) + 64;
        tr->text = pst_resize(tr->text, tr->capacity, 1);
    }
    memcpy(tr->text + tr->n, text, length);
    tr->n += length;
    tr->text[tr->n] = '\0';
}

static void copy(struct translation *tr, size_t length)
{
    put(tr, tr->at, length);
    tr->at += length;
}

/* Stops at what is refused. */
static void refuse(struct translation *tr, size_t length)
{
    length = strnlen(tr->at, length);
    tr->refused = tr->refused != NULL ? tr->refused : pst_strndup(tr->at, length);
    tr->at += strlen(tr->at);
}

/* \p{Han}: names of scripts. To PCRE2 these are script extensions unless sc: stands before; names
   of one or two letters are general categories to both. */
static void put_property(struct translation *tr)
{
    const char *name = tr->at + 3;
    size_t length = strcspn(name, "}");
    bool negated = *name == '^';

    if (tr->at[2] != '{' || name[length] == '\0') {
        refuse(tr, 3);
    } else if (length - negated <= 2 || strncmp(name, "Any}", 4) == 0) {
        copy(tr, 4 + length);
    } else {
        copy(tr, 3 + negated);
        put(tr, "sc:", 3);
        copy(tr, length - negated + 1);
    }
}

static void put_escape(struct translation *tr, bool in_class)
{
    unsigned char c = (unsigned char)tr->at[1];

    if (c == 'p' || c == 'P') {
        put_property(tr);
    } else if (c == 's' || c == 'S') {
        put(tr, "[", !in_class);
        put(tr, c == 's' ? SPACES : NO_SPACES, strlen(c == 's' ? SPACES : NO_SPACES));
        put(tr, "]", !in_class);
        tr->at += 2;
    } else if (strchr("dDrntfeax", c) != NULL ? c != '\0' : !isalnum(c) || c >= 0x80) {
        copy(tr, c == '\0' ? 1 : 2);
    } else if (!in_class && (c == 'A' || c == 'z')) {
        copy(tr, 2);
    } else { /* \w, \b, \h, \v, \K, \R, \X and others, back references, octal numbers */
        refuse(tr, 2);
    }
}

/* Sets in sets, their intersections, and classes of POSIX. */
static void put_class(struct translation *tr)
{
    copy(tr, tr->at[1] == '^' ? 2 : 1);
    if (*tr->at == ']') {
        refuse(tr, 1);
    }
    while (*tr->at != '\0' && *tr->at != ']') {
        if (*tr->at == '\\') {
            put_escape(tr, true);
        } else if (*tr->at == '[' || strncmp(tr->at, "&&", 2) == 0) {
            refuse(tr, *tr->at == '[' ? 8 : 2);
        } else {
            copy(tr, 1);
        }
    }
    copy(tr, *tr->at == ']');
}

/* Groups without a name or an option but case. */
static void put_group(struct translation *tr)
{
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};

    if (tr->at[1] != '?' && tr->at[1] != '*') {
        copy(tr, 1);
        return;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strncmp(tr->at, known[i], strlen(known[i])) == 0) {
            copy(tr, strlen(known[i]));
            return;
        }
    }
    refuse(tr, 4);
}

/* {n}, {n,}, {n,m} and {,m}. To Oniguruma a + after one repeats it, and {n}? is (?:{n})?. */
static void put_interval(struct translation *tr)
{
    size_t low = strspn(tr->at + 1, "0123456789"), comma = tr->at[1 + low] == ',';
    size_t high = comma ? strspn(tr->at + 2 + low, "0123456789") : 0;
    size_t length = 2 + low + comma + high;

    if (low + high == 0 || tr->at[length - 1] != '}') {
        copy(tr, 1); /* stands for itself */
        return;
    }
    if (tr->at[length] == '+' || (!comma && tr->at[length] == '?')) {
        refuse(tr, length + 1);
        return;
    }
    copy(tr, 1);
    put(tr, "0", low == 0);
    copy(tr, length - 1);
}

char *pst_token_pattern(const char *pattern, char **ret_refused)
{
    struct translation tr = {.at = pattern};

    put(&tr, "", 0);
    while (*tr.at != '\0') {
        switch (*tr.at) {
        case '\\':
            put_escape(&tr, false);
            break;
        case '[':
            put_class(&tr);
            break;
        case '(':
            put_group(&tr);
            break;
        case '{':
            put_interval(&tr);
            break;
        default:
            copy(&tr, 1);
            break;
        }
    }
    if (tr.refused != NULL) {
        free(tr.text);
        *ret_refused = tr.refused;
        return NULL;
    }
    return tr.text;
}
