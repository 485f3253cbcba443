/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are not what data.kind says, by their first bytes: compressed ones, archives, and
 * forms of other programs. As bare tokens or text they would be trained on without a word. Each is
 * refused with the command that makes of it what is read.
 */
#include "data/data_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

enum { LOOKED_AT = 512 };

/* The parts of a file by which its form is recognised. */
struct look {
    const char *path;
    uint64_t size;
    unsigned char begin[LOOKED_AT], end[4]; /* zeros after the last byte */
};

#define NUMPY "python3 -c \"import numpy as np; "

/* In `advice` @ stands for the file, & for its name without the last ending. */
struct form {
    uint32_t at;       /* of the bytes in the file */
    const char *bytes; /* n of them */
    size_t n;
    const char *ends;     /* the last four bytes; NULL: any */
    const char *within;   /* among the first bytes; NULL: none */
    const char *own_kind; /* of data: it reads this; NULL: none does */
    const char *what, *advice;
};

#define BYTES(text) (text), sizeof(text) - 1

static const struct form forms[] = {
    {0, BYTES("\x1F\x8B\x08"), NULL, NULL, NULL, "a gzip file", "zcat @ > &"},
    {0, BYTES("\x1F\x9D\x90"), NULL, NULL, NULL, "a compress file", "zcat @ > &"},
    {0, BYTES("\x28\xB5\x2F\xFD"), NULL, NULL, NULL, "a zstd file", "zstdcat @ > &"},
    {0, BYTES("LZIP\1"), NULL, NULL, NULL, "an lzip file", "lzip -dc @ > &"},
    {0, BYTES("\x89LZO\0\r\n\x1A\n"), NULL, NULL, NULL, "an lzop file", "lzop -dc @ > &"},
    {0, BYTES("\xFF\6\0\0sNaPpY"), NULL, NULL, NULL, "a snappy file", "snzip -dc @ > &"},
    {0, BYTES("Rar!\x1A\7"), NULL, NULL, NULL, "a RAR archive", "unrar x @"},
    {0, BYTES("\xFD\x37zXZ\0"), NULL, NULL, NULL, "an xz file", "xzcat @ > &"},
    {4, BYTES("1AY&SY"), NULL, "BZh", NULL, "a bzip2 file", "bzcat @ > &"},
    {0, BYTES("\x04\x22\x4D\x18"), NULL, NULL, NULL, "a lz4 file", "lz4cat @ > &"},
    {0, BYTES("\x02\x21\x4C\x18"), NULL, NULL, NULL, "a lz4 file", "lz4cat @ > &"},
    {0, BYTES("7z\xBC\xAF\x27\x1C"), NULL, NULL, NULL, "a 7-Zip archive", "7z x @"},
    {0, BYTES("PK\3\4"), NULL, "/data.pkl", NULL, "a torch.save file",
     NUMPY "import torch; np.save('&.npy', torch.load('@'))\""},
    {0, BYTES("PK\3\4"), NULL, NULL, NULL, "a zip archive (as .npz is)", "unzip @"},
    {0, BYTES("PK\5\6\0\0\0\0"), NULL, NULL, NULL, "an empty zip archive", "unzip @"},
    {257, BYTES("ustar"), NULL, NULL, NULL, "a tar archive", "tar xf @"},
    {0, BYTES("PAR1"), "PAR1", NULL, NULL, "a Parquet file",
     "python3 -c \"import pandas; pandas.read_parquet('@').to_json('&.jsonl', orient='records', "
     "lines=True)\""},
    {0, BYTES("Obj\1"), NULL, NULL, NULL, "an Avro file",
     "python3 -c \"import fastavro, pandas; pandas.DataFrame(fastavro.reader(open('@', 'rb')))"
     ".to_json('&.jsonl', orient='records', lines=True)\""},
    {0, BYTES("ARROW1"), NULL, NULL, NULL, "an Arrow file",
     "python3 -c \"import pandas; pandas.read_feather('@').to_json('&.jsonl', orient='records', "
     "lines=True)\""},
    {0, BYTES("\xFF\xFF\xFF\xFF"), NULL, NULL, NULL, "an Arrow stream",
     "python3 -c \"import datasets; datasets.Dataset.from_file('@').to_json('&.jsonl')\""},
    {0, BYTES("\x93NUMPY"), NULL, NULL, "npy", "a NumPy array",
     NUMPY "np.load('@').astype('uint16').tofile('&.bin')\" converts it to bare tokens; or set "
           "data.kind = \"npy\""},
    {0, BYTES("\x89HDF\r\n\x1A\n"), NULL, NULL, NULL, "an HDF5 file",
     NUMPY "import h5py; np.save('&.npy', h5py.File('@')['NAME'])\""},
    {0, BYTES("MMIDIDX\0\0"), NULL, NULL, "megatron", "a Megatron index",
     "set data.kind = \"megatron\""},
    {0, BYTES("\x88\xD8\x34\x01\1\0\0\0"), NULL, NULL, "llmc", "an llm.c shard",
     "set data.kind = \"llmc\""},
    {0, BYTES("\xA1\xD9\x34\x01\7\0\0\0"), NULL, NULL, "llmc", "an llm.c shard",
     "set data.kind = \"llmc\""},
    {8, BYTES("{\""), NULL, "\"data_offsets\"", NULL, "a safetensors file",
     "train.init loads such weights"},
    {0, BYTES("GGUF"), NULL, NULL, NULL, "a GGUF file", "train.init loads safetensors files"},
    {0, BYTES("\x89PNG\r\n"), NULL, NULL, NULL, "a PNG image",
     NUMPY "from PIL import Image; np.save('&.npy', [Image.open('@')])\""},
    {0, BYTES("%PDF-"), NULL, NULL, NULL, "a PDF document", "pdftotext @ &.txt"},
    {0, BYTES("SQLite format 3\0"), NULL, NULL, NULL, "an SQLite database", "sqlite3 @ .dump"},
};

static bool is_within(const struct look *look, const char *word)
{
    return memmem(look->begin, sizeof look->begin, word, strlen(word)) != NULL;
}

static bool has_form(const struct look *look, const struct form *form)
{
    return look->size >= form->at + form->n &&
           memcmp(look->begin + form->at, form->bytes, form->n) == 0 &&
           (form->ends == NULL || memcmp(look->end, form->ends, sizeof look->end) == 0) &&
           (form->within == NULL || is_within(look, form->within));
}

/* Protocols 2 to 5 begin with their number and end with a stop; those from 4 on have frames. */
static bool is_pickle(const struct look *look)
{
    static const char first[] = "(]})cX\x8C\x95KMJGNC\x58\x8A\x88\x89\x86\x85\x87";
    const unsigned char *b = look->begin;

    return look->size > 3 && b[0] == 0x80 && b[1] >= 2 && b[1] <= 5 &&
           memchr(first, b[2], sizeof first - 1) != NULL && look->end[3] == '.' &&
           (b[1] < 4 || b[2] != 0x95 || look->size >= 11);
}

/* Below: forms whose first bytes alone could be tokens or text. */

/* RFC 8878, section 3.1.2: a frame to skip, with its length, stands before those of data. */
static bool is_zstd(const struct look *look)
{
    const unsigned char *b = look->begin;
    const uint64_t next =
        8 + (b[4] | (uint64_t)b[5] << 8 | (uint64_t)b[6] << 16 | (uint64_t)b[7] << 24);

    return (b[0] & 0xF0) == 0x50 && memcmp(b + 1, "\x2A\x4D\x18", 3) == 0 && next <= look->size &&
           (next == look->size || next > LOOKED_AT - 4 ||
            memcmp(b + next, "\x28\xB5\x2F\xFD", 4) == 0 ||
            ((b[next] & 0xF0) == 0x50 && memcmp(b + next + 1, "\x2A\x4D\x18", 3) == 0));
}

/* The LZMA of before xz, as it is written: lc = 3, lp = 0, pb = 2, a dictionary of whole 64 KiB, an
   unknown length; its coder begins with a zero. */
static bool is_lzma(const struct look *look)
{
    const unsigned char *b = look->begin;

    return look->size > 13 && memcmp(b, "\x5D\0\0", 3) == 0 &&
           memcmp(b + 5, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 9) == 0;
}

/* compress, of any -b: 9 to 16 bits, in blocks. Tokens may begin so, too: among those only the
   usual -b 16 is looked for. */
static bool is_compress(const struct look *look)
{
    const unsigned char *b = look->begin;

    return look->size > 3 && b[0] == 0x1F && b[1] == 0x9D && b[2] >= 0x89 && b[2] <= 0x90;
}

/* Its postscript, at most 255 bytes long, ends with its name and its length. */
static bool is_orc(const struct look *look)
{
    const unsigned char length = look->end[3];

    return look->size > 3 && memcmp(look->begin, "ORC", 3) == 0 &&
           memcmp(look->end, "ORC", 3) == 0 && (length < '\t' || length > '\r') && length < ' ';
}

/* The length of the first record, then its masked CRC32C. */
static bool is_records(const struct look *look)
{
    const unsigned char *b = look->begin;
    uint32_t crc = UINT32_MAX, masked = 0;
    uint64_t length = 0;

    for (size_t i = 0; i < 8; i++) {
        length |= (uint64_t)b[i] << 8 * i;
        crc ^= b[i];
        for (size_t bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? UINT32_C(0x82F63B78) : 0);
        }
    }
    crc = ~crc;
    for (size_t i = 0; i < 4; i++) {
        masked |= (uint32_t)b[8 + i] << 8 * i;
    }
    return look->size >= 16 && length <= look->size - 16 &&
           masked == (crc >> 15 | crc << 17) + UINT32_C(0xA282EAD8);
}

static const struct {
    bool (*is)(const struct look *look);
    bool is_text_only; /* data of another kind may begin so */
    const char *what, *advice;
} told_by_more[] = {
    {is_zstd, false, "a zstd file", "zstdcat @ > &"},
    {is_lzma, false, "an lzma file", "xzcat @ > &"},
    {is_compress, true, "a compress file", "zcat @ > &"},
    {is_orc, false, "an ORC file",
     "python3 -c \"import pandas; pandas.read_orc('@').to_json('&.jsonl', orient='records', "
     "lines=True)\""},
    {is_records, false, "a TFRecord file",
     "python3 -c \"import tensorflow as tf; print(next(iter(tf.data.TFRecordDataset('@'))))\" "
     "shows its first record"},
};

/* Whole numbers are seldom letters all over. */
static bool is_text(const struct look *look)
{
    const size_t n = look->size < LOOKED_AT ? (size_t)look->size : LOOKED_AT;
    size_t i = 0;

    while (i < n && ((look->begin[i] >= ' ' && look->begin[i] <= '~') ||
                     (look->begin[i] != 0 && strchr("\t\r\n", look->begin[i]) != NULL))) {
        i++;
    }
    return i == n && n >= 32;
}

/* A name that a shell takes as it is; others are FILE. */
static const char *shell_name(const char *path)
{
    const size_t n = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "/._+=@-");

    return path[n] == '\0' && path[0] != '-' && n < 200 ? path : "FILE";
}

/* Without its last ending, so that "x.txt.gz" is "x.txt"; free() it. */
static char *stem_of(const char *name)
{
    const char *slash = strrchr(name, '/'), *dot = strrchr(name, '.');
    const bool has = dot != NULL && dot > (slash == NULL ? name : slash + 1);

    return has ? pst_strndup(name, (size_t)(dot - name)) : pst_printf("%s.out", name);
}

/* The command would write the file that it reads: "x.txt", where the advice goes on with ".txt". */
static bool is_same_file(const char *name, const char *stem, const char *ending)
{
    const size_t n = strlen(name), n_stem = strlen(stem);

    return n > n_stem && strcspn(ending, " '") == n - n_stem &&
           strncmp(name + n_stem, ending, n - n_stem) == 0;
}

static void hint_command(const char *path, const char *advice, struct pst_error *err)
{
    const char *name = shell_name(path);
    char *stem = stem_of(name), command[256] = "";

    for (const char *at = advice; *at != '\0'; at++) {
        if (*at == '@') {
            pst_text_append(command, sizeof command, "%s", name);
        } else if (*at == '&') {
            pst_text_append(command, sizeof command, "%s%s", stem,
                            is_same_file(name, stem, at + 1) ? ".out" : "");
        } else {
            pst_text_append(command, sizeof command, "%c", *at);
        }
    }
    pst_error_hint(err, "%s", command);
    free(stem);
}

void pst_data_hint_list(const char *path, struct pst_error *err)
{
    hint_command(path,
                 "jq -c '.[]' @ > &.jsonl converts a list to lines; data.field = \"\" trains on "
                 "the file unchanged",
                 err);
}

static pst_status refuse_form(const char *path, const char *what, const char *advice,
                              struct pst_error *err)
{
    pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", path, 0, 0,
                "byte 0: this is %s, which data.kind does not read", what);
    hint_command(path, advice, err);
    return PST_ERR_CONFIG;
}

static pst_status check_form(const char *kind, const struct look *look, struct pst_error *err)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const struct form *form = &forms[i];

        if ((form->own_kind == NULL || strcmp(form->own_kind, kind) != 0) && has_form(look, form)) {
            return refuse_form(look->path, form->what, form->advice, err);
        }
    }
    if (is_pickle(look)) {
        return refuse_form(look->path, "a Python pickle",
                           NUMPY
                           "np.save('&.npy', np.load('@', allow_pickle=True))\" converts it, if "
                           "it is an array from a source that you trust",
                           err);
    }
    for (size_t i = 0; i < sizeof told_by_more / sizeof *told_by_more; i++) {
        if ((!told_by_more[i].is_text_only || strcmp(kind, "text") == 0) &&
            told_by_more[i].is(look)) {
            return refuse_form(look->path, told_by_more[i].what, told_by_more[i].advice, err);
        }
    }
    return strcmp(kind, "tokens") == 0 && is_text(look)
               ? refuse_form(look->path, "text", "set data.kind = \"text\"", err)
               : PST_OK;
}

/* A file with a zero byte among its first ones is not text: git's rule. */
#define TEXT_LOOKED_AT ((size_t)8000)

static pst_status check_encoding(const char *path, const char *text, size_t size,
                                 struct pst_error *err)
{
    const char *zero = memchr(text, '\0', size < TEXT_LOOKED_AT ? size : TEXT_LOOKED_AT);

    if (size >= 4 &&
        (memcmp(text, "\xFF\xFE\0\0", 4) == 0 || memcmp(text, "\0\0\xFE\xFF", 4) == 0)) {
        return refuse_form(path, "text in UTF-32", "iconv -f UTF-32 -t UTF-8 @ > &", err);
    }
    if (size >= 2 && (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0)) {
        return refuse_form(path, "text in UTF-16", "iconv -f UTF-16 -t UTF-8 @ > &", err);
    }
    if (zero == NULL) {
        return PST_OK;
    }
    pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", path, 0, 0, "this is not text: byte %zu is 0",
                (size_t)(zero - text));
    pst_error_hint(err, "set data.kind for other formats, such as \"tokens\"; data.field = \"\" "
                        "trains on the bytes of any file");
    return PST_ERR_CONFIG;
}

pst_status pst_data_check_text(const char *path, const char *text, uint64_t size,
                               struct pst_error *err)
{
    struct look look = {.path = path, .size = size};
    pst_status status;

    memcpy(look.begin, text, size < LOOKED_AT ? (size_t)size : LOOKED_AT);
    if (size >= sizeof look.end) {
        memcpy(look.end, text + size - sizeof look.end, sizeof look.end);
    }
    status = check_form("text", &look, err);
    return status == PST_OK ? check_encoding(path, text, (size_t)size, err) : status;
}

pst_status pst_data_check_file(const char *kind, const struct pst_data_file *file,
                               struct pst_error *err)
{
    struct look look = {.path = file->path, .size = file->size};
    pst_status status = pst_data_file_read(file, 0, look.begin,
                                           file->size < LOOKED_AT ? file->size : LOOKED_AT, err);

    if (status == PST_OK && file->size >= sizeof look.end) {
        status =
            pst_data_file_read(file, file->size - sizeof look.end, look.end, sizeof look.end, err);
    }
    return status == PST_OK ? check_form(kind, &look, err) : status;
}
