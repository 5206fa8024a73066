"""What engines print when they start well, one short sample each; some lines were recorded, the rest are documented."""

from __future__ import annotations

START_LOGS = {
    "vllm": """\
(Worker pid=31102) INFO 11-29 16:46:45 [gpu_model_runner.py:5010] Starting to load model /models/tiny...
Loading safetensors checkpoint shards: 100% Completed | 1/1 [00:00<00:00, 235.66it/s]
(Worker pid=31102) INFO 11-29 16:46:45 [default_loader.py:507] Loading weights took 39.01 seconds
(Worker pid=31102) INFO 11-29 16:46:46 [gpu_model_runner.py:5040] Loading drafter model...
(Worker pid=31102) INFO 11-29 16:46:46 [gpu_model_runner.py:5089] Model loading took 21.9 GiB memory and 41.2 seconds
(Worker pid=31102) INFO 11-29 16:46:47 [gpu_model_runner.py:6410] Estimated CUDA graph memory: 1.10 GiB total
(Worker pid=31102) INFO 11-29 16:46:47 [gpu_worker.py:773] Available KV cache memory: 33.07 GiB
(EngineCore pid=309) INFO 11-29 16:46:48 [kv_utils.py:1149] Maximum concurrency for 4,096 tokens per request: 9.00x
(Worker pid=31102) INFO 11-29 16:46:49 [gpu_model_runner.py:6517] Graph capturing finished in 12 secs, took 0.90 GiB
(EngineCore pid=309) INFO 11-29 16:46:50 [core.py:413] init engine (profile, create kv cache, warmup model) took 72.2 s
(APIServer pid=30611) INFO 11-29 16:46:50 [entry.py:140] Starting vLLM server on http://127.0.0.1:8000
INFO:     Application startup complete.
""",
    "sglang": """\
[2026-07-01 10:00:00] Load weight begin. avail mem=110.30 GB
[2026-07-01 10:00:20] Load weight end. elapsed=20.10 s, type=Qwen2ForCausalLM, avail mem=104.10 GB
[2026-07-01 10:00:30] Capture cuda graph begin. This can take up to several minutes.
[2026-07-01 10:00:50] The server is fired up and ready to roll!
""",
    "llamacpp": """\
0.00.000.969 I srv  llama_server: initializing ...
0.00.004.414 I srv    load_model: loading model '/models/smollm2-135m.gguf'
0.00.120.000 I load_tensors: offloaded 31/31 layers to GPU
0.00.281.463 I srv    load_model: initializing, n_slots = 2, n_ctx_slot = 2048, kv_unified = 'false'
0.00.283.972 I srv  llama_server: model loaded
0.00.284.010 I srv  llama_server: listening on http://127.0.0.1:60993
""",
    "llamacpp-router": """\
0.00.049.554 I srv  llama_server: listening on http://127.0.0.1:18102
0.00.234.151 I srv          load: spawning server instance with name=smollm2-135m on port 60993
[60993] 0.00.000.969 I srv  llama_server: initializing ...
[60993] 0.00.004.414 I srv    load_model: loading model '/models/smollm2-135m.gguf'
[60993] 0.00.120.000 I load_tensors: offloaded 31/31 layers to GPU
[60993] 0.00.281.463 I srv    load_model: initializing, n_slots = 2, n_ctx_slot = 2048, kv_unified = 'false'
[60993] 0.00.283.972 I srv  llama_server: model loaded
""",
    "atlas": "INFO atlas: Listening on 127.0.0.1:8888\n",
    "docker-model-runner": 'time="2026-07-01" level=info msg="installed llama-server gpuSupport=true"\n',
    "llmd": """\
info(llmd): Devices: - NVIDIA GB10 (cuda:0)
info(llmd): Allocating 26238 pages for the KvCache: 44.840GiB
info(llmd): Compiled all models [18.796s]
info(llmd): Loaded weights [1.40GiB, 46.282s]
info(llmd): Listening on 0.0.0.0:8000
""",
    "max": "10:00:00.000 INFO: 🚀 Server ready on http://0.0.0.0:8000 (Press CTRL+C to quit)\n",
    "trtllm": "Loading weights concurrently: 100%|██████████| 1288/1288 [00:20<00:00, 63.9it/s]\n",
}
