# frozen_string_literal: true

# The connection of a channel whose socket is in another process: it collects the messages to send.
class RemoteConnection
  attr_reader :transmissions

  def initialize
    @transmissions = []
  end

  def identifiers
    []
  end

  def logger
    ActionCable.server.logger
  end

  def transmit(message)
    @transmissions << ActiveSupport::JSON.encode(message)
  end
end
