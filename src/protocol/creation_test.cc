#include "protocol/creation.h"

#include <gtest/gtest.h>

namespace cgpu {
namespace {

TEST(Creation, ARequestIsTheSameAfterEncodingAndDecoding) {
  CreationRequest request;
  request.engine_id = "a_b-1.c+d";
  request.pid_namespace = false;
  request.environment = {"CGPU_MEM=3GiB", "CGPU_DEVICES=", "NVIDIA_VISIBLE_DEVICES=a\nb"};
  request.annotations = {{"io.kubernetes.cri.sandbox-uid", "1-2"}, {"empty", ""}};
  request.minors = {0, 3};
  const std::string text = EncodeCreationRequest(request);
  const auto decoded = DecodeCreationRequest(text);
  ASSERT_TRUE(decoded.ok()) << decoded.error().what;
  EXPECT_EQ(decoded->engine_id, request.engine_id);
  EXPECT_FALSE(decoded->pid_namespace);
  EXPECT_EQ(decoded->environment, request.environment);
  EXPECT_EQ(decoded->annotations, request.annotations);
  EXPECT_EQ(decoded->minors, request.minors);
  EXPECT_EQ(text,
            "create a_b-1.c+d\npidns 0\nenv CGPU_MEM=3GiB\nenv CGPU_DEVICES=\n"
            "env NVIDIA_VISIBLE_DEVICES=a%0ab\nannotation io.kubernetes.cri.sandbox-uid 1-2\n"
            "annotation empty\nminor 0\nminor 3\n.\n");
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(DecodeCreationRequest(text.substr(0, n)).ok()) << n;
  }
}

TEST(Creation, ACommandsRequestIsTheSameAfterEncodingAndDecoding) {
  CreationRequest request;
  CommandRequest& command = request.command.emplace();
  command.name = "a b%c";
  command.stem = "python3";
  command.node = "default";
  command.killable = true;
  command.flags.gpus = "device=0,2";
  command.flags.memory = "3GiB";
  command.flags.units = "4";
  command.flags.compute = "30";
  command.flags.compute_max = "40";
  command.flags.weight = "2";
  command.flags.priority = "";
  request.environment = {"CGPU_COMPUTE=30"};
  const std::string text = EncodeCreationRequest(request);
  EXPECT_EQ(text,
            "run killable\nname a%20b%25c\nstem python3\nnode default\ngpus device=0,2\nmem 3GiB\n"
            "units 4\ncompute 30\ncompute-max 40\nweight 2\npidns 1\nenv CGPU_COMPUTE=30\n.\n");
  const auto decoded = DecodeCreationRequest(text);
  ASSERT_TRUE(decoded.ok()) << decoded.error().what;
  ASSERT_TRUE(decoded->command);
  EXPECT_EQ(decoded->command->name, command.name);
  EXPECT_EQ(decoded->command->stem, command.stem);
  EXPECT_EQ(decoded->command->node, command.node);
  EXPECT_TRUE(decoded->command->killable);
  EXPECT_EQ(decoded->command->flags.gpus, command.flags.gpus);
  EXPECT_EQ(decoded->command->flags.memory, command.flags.memory);
  EXPECT_EQ(decoded->command->flags.units, command.flags.units);
  EXPECT_EQ(decoded->command->flags.compute, command.flags.compute);
  EXPECT_EQ(decoded->command->flags.compute_max, command.flags.compute_max);
  EXPECT_EQ(decoded->command->flags.weight, command.flags.weight);
  EXPECT_FALSE(decoded->command->flags.priority);
  EXPECT_EQ(decoded->environment, request.environment);
  EXPECT_TRUE(decoded->engine_id.empty());
}

TEST(Creation, AReplyIsTheSameAfterEncodingAndDecoding) {
  CreationReply reply;
  reply.id = "3f2a00bc11de";
  reply.listener = "/run/cgpu/3f2a00bc11de.agent";
  reply.killable = true;
  reply.devices = {{"/dev/nvidia0", 195, 0}, {"/dev/nvidia-uvm", 511, 0}};
  reply.majors = {195, 511};
  reply.cdi = {"/etc/cdi"};
  reply.tree = {"--proc", "/a b"};
  reply.environment = {"ALIYUN_COM_GPU_MEM_IDX=0,1"};
  const std::string text = EncodeCreationReply(reply);
  const auto decoded = DecodeCreationReply(text);
  ASSERT_TRUE(decoded.ok()) << decoded.error().what;
  EXPECT_EQ(decoded->id, reply.id);
  EXPECT_EQ(decoded->listener, reply.listener);
  EXPECT_TRUE(decoded->killable);
  EXPECT_EQ(decoded->devices, reply.devices);
  EXPECT_EQ(decoded->majors, reply.majors);
  EXPECT_EQ(decoded->tree, reply.tree);
  EXPECT_EQ(decoded->environment, reply.environment);
  EXPECT_EQ(decoded->cdi, reply.cdi);
  EXPECT_EQ(text,
            "created 3f2a00bc11de\nlistener /run/cgpu/3f2a00bc11de.agent\nkillable 1\n"
            "device /dev/nvidia0 195 0\ndevice /dev/nvidia-uvm 511 0\nmajor 195\nmajor 511\n"
            "cdi /etc/cdi\ntree --proc\ntree /a%20b\nenv ALIYUN_COM_GPU_MEM_IDX=0,1\n.\n");
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(DecodeCreationReply(text.substr(0, n)).ok()) << n;
  }
}

TEST(Creation, AnErrorComesBackAsItWas) {
  const Error error{Code::kExhausted, 0, "GPU 0 has 100 MiB free", "ask for less"};
  const auto decoded = DecodeCreationReply(EncodeCreationReply(error));
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().code, error.code);
  EXPECT_EQ(decoded.error().what, error.what);
  EXPECT_EQ(decoded.error().hint, error.hint);
  const std::string text = EncodeCreationReply(error);
  EXPECT_EQ(text, "error 3 GPU%200%20has%20100%20MiB%20free ask%20for%20less\n.\n");
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_EQ(DecodeCreationReply(text.substr(0, n)).error().code, Code::kInvalid) << n;
  }
}

TEST(Creation, UnknownLinesAreRefused) {
  EXPECT_TRUE(DecodeCreationRequest("create a\npidns 1\n.\n").ok());
  EXPECT_TRUE(DecodeCreationRequest("run -\npidns 1\n.\n").ok());
  EXPECT_FALSE(DecodeCreationRequest("create a\npidns 1\nmore b\n.\n").ok());
  EXPECT_FALSE(DecodeCreationRequest("create a\npidns 2\n.\n").ok());
  EXPECT_FALSE(DecodeCreationRequest("pidns 1\n.\n").ok());
  EXPECT_FALSE(DecodeCreationRequest("run 1\npidns 1\n.\n").ok());
  EXPECT_FALSE(DecodeCreationRequest("create a\nrun -\npidns 1\n.\n").ok());
  for (const char* id : {"/", "..", "a/b", "a%0ab", "a%20b"}) {
    EXPECT_FALSE(DecodeCreationRequest(std::string("create ") + id + "\npidns 1\n.\n").ok()) << id;
  }
  EXPECT_FALSE(DecodeCreationRequest("create a\npidns 1\nmem 1GiB\n.\n").ok());
  const std::string reply = "created 3f2a00bc11de\nlistener /a\n";
  EXPECT_TRUE(DecodeCreationReply(reply + "killable 0\n.\n").ok());
  EXPECT_FALSE(DecodeCreationReply(reply + "killable 0\ndevice /b 1\n.\n").ok());
  EXPECT_FALSE(DecodeCreationReply(reply + "killable 0\nmore 1\n.\n").ok());
  EXPECT_FALSE(DecodeCreationReply(reply + "killable 2\n.\n").ok());
  EXPECT_FALSE(DecodeCreationReply("created x\nlistener /a\nkillable 0\n.\n").ok());
  EXPECT_FALSE(DecodeCreationReply("error 99 a b\n.\n").ok());
}

}  // namespace
}  // namespace cgpu
