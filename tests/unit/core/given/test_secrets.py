"""What looks like a secret in a command is on no page and in no terminal."""

import pytest
from tierscope.core.given.secrets import command_words, without_secrets


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["t", "--token", "abc", "-v"], "t --token HIDDEN -v"),
        (["t", "--hf-token=abc"], "t --hf-token=HIDDEN"),
        (["env", "API_KEY=a b", "t"], "env API_KEY=HIDDEN t"),
        (["t", "++logger.apiKey=abc"], "t ++logger.apiKey=HIDDEN"),
        (["t", "--password", "a b"], "t --password HIDDEN"),
        (["t", "--db-password2", "abc"], "t --db-password2 HIDDEN"),
        (["sh", "-c", "A_TOKEN=b t; t"], "sh -c A_TOKEN=HIDDEN"),
        (["sh", "-c", "export A_TOKEN=b; t"], "sh -c 'export A_TOKEN=HIDDEN; t'"),
        (["t", '{"api_key": "abc", "lr": 1}'], 't \'{"api_key": HIDDEN, "lr": 1}\''),
        (["t", "s3://me:abc@h/d"], "t s3://HIDDEN@h/d"),
        (["t", "https://h/d?a=1&sig=abc"], "t 'https://h/d?a=1&sig=HIDDEN'"),
        (["t", "-H", "X-Key: abc"], "t -H 'X-Key: HIDDEN'"),
        (["t", "-H", "a: Bearer abc"], "t -H 'a: Bearer HIDDEN'"),
        (["t", "hf_AbCdEf0123"], "t HIDDEN"),
        (["t", "--api_keys=a,b", "APIKEYS=a"], "t --api_keys=HIDDEN APIKEYS=HIDDEN"),
        (["t", "--auth-tokens", "a"], "t --auth-tokens HIDDEN"),
        (["t", "--pat", "x", "--jwt", "x"], "t --pat HIDDEN --jwt HIDDEN"),
        (["t", "--cookie", "a=b; c=d"], "t --cookie HIDDEN"),
        (["t", "--token", "-abc", "--v"], "t --token HIDDEN --v"),
        (["curl", "-u", "me:pw", "h"], "curl -u HIDDEN h"),
        (["curl", "--proxy-user", "me:pw"], "curl --proxy-user HIDDEN"),
        (["t", "-H", "Authorization: Digest a"], "t -H 'Authorization: HIDDEN'"),
        (["t", "-H", 'Cookie: a="b"; c=d'], "t -H 'Cookie: HIDDEN'"),
        (["sh", "-c", "t --token a; t"], "sh -c 't --token HIDDEN; t'"),
        (["sh", "-c", "curl -u me:pw h"], "sh -c 'curl -u HIDDEN h'"),
    ],
)
def test_value_that_looks_like_a_secret_is_hidden(command, words):
    assert command_words(command) == words


@pytest.mark.parametrize(
    "command",
    [
        "t --tokenizer gpt2 --max-tokens 5 --num_tokens=3",
        "t --token-file /a --secret-path=/b AWS_ACCESS_KEY_ID=me",
        "t /data/key=5/part-0 key=5 --keys a",
        "t --use-auth-token --lr 3",
        "t s3://bucket/token hf_transfer sk-learn --monkeys=2",
        "t --image_key jpg --label-key cls --pad_token x --max_new_tokens=5",
        "t --n_tokens 3 --special-tokens a --n-keys 2 --use-auth-token -v",
        "python -u t.py && docker run -u 1000:1000 i && t -u http://h:80/",
        "python train.py --data '{dataset}' --lr=1e-3",
    ],
)
def test_what_only_resembles_a_secret_stays(command):
    assert without_secrets(command) == command


def test_header_in_a_text_ends_at_a_quote_or_before_an_option():
    text = "sh -c 'curl -H \"Authorization: Digest abc\" h' -H Cookie: a=b; c=d --lr 1"
    hidden = "sh -c 'curl -H \"Authorization: HIDDEN\" h' -H Cookie: HIDDEN --lr 1"
    assert without_secrets(text) == hidden


@pytest.mark.parametrize("part", ["a=", "a", "a: b ", "a='"])
def test_long_text_is_looked_through_once(part):
    assert without_secrets(f"{part * 5000} --token x").endswith("--token HIDDEN")


def test_command_line_of_a_log_has_no_words_but_blanks():
    text = "python t.py --token abc --url http://me:b@h/ --lr 1  KEYS=2"
    hidden = "python t.py --token HIDDEN --url http://HIDDEN@h/ --lr 1  KEYS=2"
    assert without_secrets(text) == hidden
