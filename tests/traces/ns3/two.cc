// Two TCP flows that share one bottleneck in ns-3: the drops and bytes that crates/sim/tests/foreign.rs compares ours with.
//
//   two CONTROLLER RATE_BPS RTT_MS QUEUE_PACKETS SECONDS OFFSET_MS
//
// Prints one line of CSV: `CONTROLLER,RTT_MS,OFFSET_MS,DROPS,SENT,RECEIVED_A,RECEIVED_B`. DROPS are the packets that the queue before the
// bottleneck refused and SENT those that reached it; RECEIVED are bytes that each application has. The second flow begins OFFSET_MS after
// the first: over several offsets the medians say what the algorithms do, one run says how their packets happened to interleave.
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <cstdlib>
#include <string>

using namespace ns3;

namespace
{
// Data in a segment, and the headers that ns-3 puts before it: PPP, IPv4, TCP without options.
constexpr uint32_t SEGMENT = 1460;
constexpr uint32_t HEADERS = 40;
constexpr uint32_t PPP = 2;
constexpr uint16_t PORT = 5000;

unsigned long g_drops = 0;
unsigned long g_sent = 0;

void Dropped(Ptr<const Packet>) { ++g_drops; }

void Queued(Ptr<const Packet>) { ++g_sent; }
} // namespace

int main(int argc, char* argv[])
{
    if (argc != 7)
    {
        return 2;
    }
    const std::string controller = argv[1];
    // The link carries two bytes of PPP more per packet than IP has: a full packet takes as long as 1500 bytes at the rate asked for.
    const auto full = static_cast<uint64_t>(SEGMENT + HEADERS);
    const uint64_t rate = std::strtoull(argv[2], nullptr, 10) * (full + PPP) / full;
    const int rtt = std::atoi(argv[3]);
    const double seconds = std::atof(argv[5]);
    const int offset = std::atoi(argv[6]);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + controller)));
    // Not PRR: that of ns-3 lets the window rise in the first half of a recovery, and loses a packet more by it at each overflow.
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName("ns3::TcpClassicRecovery")));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 26));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 26));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(false));

    NodeContainer nodes;
    nodes.Create(2);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate)));
    link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(500 * rtt)));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue(std::string(argv[4]) + "p"));
    NetDeviceContainer devices = link.Install(nodes);
    InternetStackHelper stack;
    stack.Install(nodes);
    Ipv4AddressHelper address;
    address.SetBase("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = address.Assign(devices);
    // The device's queue is the only one.
    TrafficControlHelper control;
    control.Uninstall(devices);

    auto queue = DynamicCast<PointToPointNetDevice>(devices.Get(0))->GetQueue();
    queue->TraceConnectWithoutContext("Drop", MakeCallback(&Dropped));
    // A full queue stops the layer above, which then drops without asking it.
    auto layer = nodes.Get(0)->GetObject<TrafficControlLayer>();
    layer->TraceConnectWithoutContext("TcDrop", MakeCallback(&Dropped));
    queue->TraceConnectWithoutContext("Enqueue", MakeCallback(&Queued));

    Ptr<PacketSink> received[2];
    for (uint16_t flow = 0; flow < 2; ++flow)
    {
        const uint16_t port = PORT + flow;
        PacketSinkHelper sinks("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        ApplicationContainer sink = sinks.Install(nodes.Get(1));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), port));
        bulk.SetAttribute("MaxBytes", UintegerValue(0));
        bulk.SetAttribute("SendSize", UintegerValue(SEGMENT * 16));
        ApplicationContainer sender = bulk.Install(nodes.Get(0));
        sink.Start(Seconds(0));
        sender.Start(MilliSeconds(flow * offset));
        received[flow] = DynamicCast<PacketSink>(sink.Get(0));
    }
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    std::printf("%s,%d,%d,%lu,%lu,%llu,%llu\n",
                controller.substr(3).c_str(),
                rtt,
                offset,
                g_drops,
                g_sent + g_drops,
                static_cast<unsigned long long>(received[0]->GetTotalRx()),
                static_cast<unsigned long long>(received[1]->GetTotalRx()));
    Simulator::Destroy();
    return 0;
}
