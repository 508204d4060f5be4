# frozen_string_literal: true

# The channel of the WebSocket shootout: `echo` answers its sender, `broadcast` reaches every client.
class BenchmarkChannel < ActionCable::Channel::Base
  STREAM = 'all'

  def subscribed
    stream_from STREAM
  end

  def echo(data)
    transmit(data)
  end

  def broadcast(data)
    ActionCable.server.broadcast(STREAM, data)
    transmit(data.merge('action' => 'broadcastResult'))
  end
end
