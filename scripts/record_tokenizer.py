#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the package `tokenizers` makes of texts: tests/data/tokenizer/*.json.

    scripts/record_tokenizer.py                 the recorded cases, again
    scripts/record_tokenizer.py FOLDER SEED     other ones, of random texts, for a test that compares there and then

Each NAME.json is a tokenizer.json, trained here on the text below; cases.json has texts, their tokens without and with
what the file puts around a text, and the text that the tokens give back. Exit code 77: there is no such package.
"""
import json
import pathlib
import random
import sys
import unicodedata

try:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError:
    print("skipped: no package tokenizers")
    sys.exit(77)

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "tokenizer"

CORPUS = [
    "A pipeline is as fast as its slowest stage, and the slowest stage isn't always the largest one.",
    "We'll train it; they've trained it, I'd say they're done. It's 2,048 tokens of 65536 in 1 step(s).",
    "Die Größe der Schritte hängt von der Länge ab; größer wäre schöner. Это текст, а это ещё текст.",
    "語彙は小さい。語彙は大きい。 for (int i = 0; i < n; i++) {\n\treturn x[i];\n}\n\n    pass\n",
] * 4
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
SCRIPTS = r"[\p{Han}]+|\p{^Latin}{,2}\S|(?<=[a-z])(?=[A-Z])|[^\s\p{L}]+\s*|x*"  # what PCRE2 takes otherwise

TEXTS = [
    "", " ", "\n", "a", "  a", "a  ", "a  b", "\t\n \r\n\r\nx\n\n\n  y", "It's WE'LL they'Ve 'S 'sx", "1234567 12 3.14159 0x1F",
    "the slowest stage  isn't the largest one", "Größe größer GRÖSSE", "Ещё текст, ещё 12 слов", "語彙は小さい 語彙", "e\u0301 \u00e9 \ufb01 \u1e9b\u0323",
    "<|begin|>the stage<|end|> and <|end|><|end|>>", "<|begin|", "a\u00a0b\u2003c\u3000d\u0085e", "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \u0300",
    "x" * 300, "ab" * 40 + " " * 40 + "\n" * 10, "a\u0000b", "٣٤٥ Ⅷ ½ ²", "user@example.com https://a.b/c?d=e&f=%20#g",
    "the extra token<extra>the", "<extra> <EXTRA>", "语。彙は小さい。語彙", " \u180e a\u180e's", "sloweStage isN't", "xx\u0151xo\u030bx",
]


def train(pre, special=("<|end|>", "<|begin|>"), **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=330, special_tokens=list(special), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    tokenizer.add_tokens([AddedToken("<extra>", normalized=True), AddedToken("the extra", normalized=False)])
    return tokenizer


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def make():
    def level(regex=False, space=False):
        return pre_tokenizers.ByteLevel(add_prefix_space=space, use_regex=regex)

    gpt2 = train(level(regex=True))
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    prefixed = train(level(regex=True, space=True))
    llama3 = train(pre_tokenizers.Sequence([split(LLAMA3), level()]), ignore_merges=True)
    llama3.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin|> $A <|end|>:1", special_tokens=[
            ("<|begin|>", llama3.token_to_id("<|begin|>")), ("<|end|>", llama3.token_to_id("<|end|>"))])])
    text = json.loads(llama3.to_str())  # words that are tokens and that merges no longer make
    text["model"]["merges"] = text["model"]["merges"][::2] + text["model"]["merges"][1:20:2]
    llama3 = Tokenizer.from_str(json.dumps(text))
    qwen = train(pre_tokenizers.Sequence([split(QWEN), level()]))
    qwen.normalizer = normalizers.NFC()
    scripts = train(level())  # merges across the cuts
    scripts.normalizer = normalizers.NFC()
    scripts.pre_tokenizer = pre_tokenizers.Sequence([split(SCRIPTS), level()])
    text = json.loads(scripts.to_str())
    text["added_tokens"][-1]["content"] = "o\u030bx"  # normalized, as the text in which it is looked for
    text["added_tokens"][-1]["normalized"] = True
    scripts = Tokenizer.from_str(json.dumps(text))
    digits = train(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level(regex=True)]))
    return {"gpt2": gpt2, "prefixed": prefixed, "llama3": llama3, "qwen": qwen, "digits": digits, "scripts": scripts}


def known_character(generator):
    """One that every Unicode table has: each library brings tables of its own version."""
    while True:
        c = chr(generator.choice((generator.randrange(1, 0x250), generator.randrange(0x300, 0x2FFF))))
        if unicodedata.ucd_3_2_0.category(c) != "Cn":
            return c


def random_text(generator):
    parts = []
    for _ in range(generator.randrange(1, 40)):
        kind = generator.randrange(6)
        if kind < 3:
            parts.append(generator.choice(generator.choice(CORPUS).split(" ")))
        elif kind == 3:
            parts.append("".join(generator.choice(" \n\t\r'") for _ in range(generator.randrange(1, 5))))
        elif kind == 4:
            parts.append("".join(known_character(generator) for _ in range(generator.randrange(1, 6))))
        else:
            parts.append(generator.choice(["<|end|>", "<extra>", "the extra", "'ll", "007", " 12345 "]))
        parts.append(generator.choice(["", " ", " "]))
    return "".join(parts).replace("\\", "")  # in cases.json it is that of \0


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")


def main():
    out, seed = (pathlib.Path(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) == 3 else (OUT, None)
    out.mkdir(parents=True, exist_ok=True)
    generator = random.Random(seed)
    cases = []
    for name, tokenizer in make().items():
        text = json.loads(tokenizer.to_str())
        if name == "gpt2":  # the older form
            text["model"]["merges"] = [" ".join(pair) for pair in text["model"]["merges"]]
        write(out / f"{name}.json", text)
        for text in TEXTS if seed is None else [random_text(generator) for _ in range(400)]:
            bare = tokenizer.encode(text, add_special_tokens=False).ids
            framed = tokenizer.encode(text).ids
            cases.append({"tokenizer": name, "text": text.replace("\0", "\\0"), "tokens": bare, "framed": framed,
                          "decoded": tokenizer.decode(framed, skip_special_tokens=True).replace("\0", "\\0")})
    write(out / "cases.json", cases)


main()
