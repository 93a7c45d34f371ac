"""A Hugging Face text classifier, watched and audited: python examples/hf_text.py

The lines that end with `# leakscope`, and `callbacks=[watch]`, are all you add; either the monitor or the
audit takes three. The checkpoint is a small BERT with random weights, made here, so that the example needs
no download; put the name of yours in its place.
"""

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from leakscope.integrations import hugging_face  # leakscope

rng = np.random.default_rng(0)
words = [f"word{i}" for i in range(100)]
vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *words])}
rules = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
rules.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=rules, pad_token="[PAD]", unk_token="[UNK]")
size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=32, **size)
AutoModelForSequenceClassification.from_config(config).save_pretrained("checkpoint")

texts = [" ".join(rng.choice(words, rng.integers(4, 12))) for _ in range(200)]
train_set = [{**tokenizer(text), "labels": int(rng.integers(2))} for text in texts]  # labels to memorize
watch = hugging_face.monitor_callback()  # leakscope
trainer = Trainer(
    model_init=lambda: AutoModelForSequenceClassification.from_pretrained("checkpoint"),
    args=TrainingArguments("trained", num_train_epochs=8, learning_rate=3e-3, report_to=[], use_cpu=True),
    train_dataset=train_set,
    data_collator=DataCollatorWithPadding(tokenizer),
    callbacks=[watch],
)
trainer.train()
print("most exposed records:", watch.monitor.top(0.02))  # leakscope
verdict = hugging_face.audit(trainer, out="runs/hf_text", models=16)  # leakscope
print(verdict)  # leakscope
